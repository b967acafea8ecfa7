"""Whole runs on a site of their own, which is made with the first of them: database, queue, worker, everything real."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from runs.containers import connect
from runs.scripted.scripts import Mode
from runs.scripted.server import ScriptedServer
from tests.engine.site import GateSite, prepared_site
from tests.gateway.real_gateway import KEY
from tests.peers.rows import Row

ALL_TASKS = ("ledger-totals", "config-merge", "file-tree")
ONE_TASK = ("ledger-totals",)


@dataclass(frozen=True)
class Expected:
    """What must come of a run; `classes` are the failure classes of its trials."""

    verdict: str
    evaluated: int
    passed: int
    classes: tuple[str, ...] = ()


class WholeRuns:
    """`stack` closes what was opened for the runs, last of all the site."""

    def __init__(self) -> None:
        self.stack = ExitStack()

    def __enter__(self) -> "WholeRuns":
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @cached_property
    def address(self) -> str:
        """The host's address on the engine's default bridge, which gateways reach."""
        api = connect(30)
        address = api.inspect_network("bridge")["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"
        api.close()
        return str(address)

    @cached_property
    def _site(self) -> GateSite:
        site = prepared_site()
        self.stack.callback(shutil.rmtree, site.data)
        self.stack.callback(site.stop_queue)
        self.stack.enter_context(site.worker())
        return site

    def run(self, name: str, model: str, base_url: str, key: str, tasks: tuple[str, ...], expected: Expected) -> str:
        """Make a run against that endpoint; what came of it in words. AssertionError if that is not what must."""
        key_file = self._site.data / f"{name}.key"
        key_file.touch(0o600)
        key_file.write_text(key + "\n")
        self._site.register(_record(name, model, base_url, str(key_file)))
        run = self._site.ended(self._site.start(name, *tasks))
        trials = run["trials"]
        classes = tuple(trial["class"] for trial in trials if trial["class"])
        seen = Expected(run["verdict"], run["counts"]["evaluated"], run["counts"]["passed"], classes)
        said = sorted({word for trial in trials for word in (trial["code"], *trial["badges"]) if word})
        assert seen == expected, f"{seen}; {', '.join(said)}"
        assert run["cleanup"] == "clean", run["cleanup"]
        counted = f"{seen.passed} of {seen.evaluated} passed" if seen.evaluated else "nothing evaluated"
        return f"{seen.verdict}, {counted}" + (f" (`{'`, `'.join(said)}`)" if said else "")


@contextmanager
def scripted(address: str) -> Iterator[str]:
    """The scripted endpoint there; gives its base URL."""
    with ScriptedServer(address, 0, KEY) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        yield f"http://{address}:{server.port}/v1"
        server.shutdown()


def forms(runs: WholeRuns) -> list[Row]:
    """Forms of answers of which no run of the tests or of the smoke is made."""
    refused = Expected("incomplete", 0, 0, ("serving_runtime",))
    kinds = (Mode.HTML, Mode.EMPTY, Mode.CUT_OFF, Mode.EVENT_STREAM, Mode.COMPRESSED)
    expected = {Mode.EMPTY_ID: Expected("passed", 1, 1), **dict.fromkeys(kinds, refused)}

    def act(mode: Mode) -> str:
        with scripted(runs.address) as base_url:
            return runs.run(f"forms-{mode}", f"scripted-{mode}", base_url, KEY, ONE_TASK, expected[mode])

    return [Row("the scripted endpoint", f"whole run of 1, {mode}", partial(act, mode)) for mode in expected]


def _record(name: str, model: str, base_url: str, key_file: str) -> dict[str, Any]:
    return {
        "schema": "benchsite.endpoint/v2", "name": name, "base_url": base_url, "model": model, "route": "direct",
        "private_addresses": "allowed", "credential": {"kind": "file", "name": key_file}, "controls": ["max_tokens"],
        "request_timeout_s": 120, "scripted": True,
    }  # fmt: skip
