"""LiteLLM's proxy between gateway and scripted endpoint: its process, whole runs through it, and its other APIs."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from runs.engine.network.gateway import PassThrough
from runs.scripted.scripts import Mode
from tests.gateway.real_gateway import KEY, Site
from tests.peers.installing import LITELLM
from tests.peers.rows import Row
from tests.peers.whole_runs import ALL_TASKS, ONE_TASK, Expected, WholeRuns, scripted

PEER = f"LiteLLM's proxy ({LITELLM})"
MASTER_KEY = "sk-peers-key-of-the-proxy-0123456789"
START_S = 180.0
RUNS = {
    Mode.POSITIVE: (ALL_TASKS, Expected("passed", 3, 3)),
    Mode.NEGATIVE: (ALL_TASKS, Expected("failed", 3, 0)),
    Mode.UNAUTHORIZED: (ALL_TASKS, Expected("incomplete", 0, 0, ("authentication",) * 3)),
    Mode.RATE_LIMITED: (ALL_TASKS, Expected("incomplete", 0, 0, ("serving_runtime",) * 3)),
    Mode.SIGNED: (ONE_TASK, Expected("incomplete", 0, 0, ("serving_runtime",))),
    Mode.REASONING_CUT: (ONE_TASK, Expected("failed", 1, 0)),
    # The proxy says its own alias whatever the endpoint said: behind one that renames nobody sees another model.
    Mode.WRONG_MODEL: (ONE_TASK, Expected("passed", 1, 1)),
}
APIS = {
    "/v1/chat/completions": "chat-completions", "/v1/responses": "responses", "/v1/messages": "messages",
}  # fmt: skip
ASKED = {
    Mode.POSITIVE: ("ok", 200),
    Mode.NEGATIVE: ("ok", 200),
    Mode.UNAUTHORIZED: ("upstream_error", 401),
    Mode.RATE_LIMITED: ("upstream_error", 429),
}
# Runs in a container beside the gateway: asks each of ASK and prints status, kind of content and the body's length.
CLIENT = """
import http.client, json, os
for path, body in json.loads(os.environ["ASK"]):
    link = http.client.HTTPConnection("model-gateway", 8080, timeout=60)
    headers = {"Authorization": "Bearer " + os.environ["TOKEN"], "Content-Type": "application/json"}
    link.request("POST", path, json.dumps(body), headers)
    answer = link.getresponse()
    answer.read()
    print(json.dumps([answer.status, answer.headers.get("content-type")]), flush=True)
    link.close()
"""


@contextmanager
def proxy(packages: Path, address: str, upstream: str) -> Iterator[int]:
    """A proxy process that listens on that address; gives its port."""
    with tempfile.TemporaryDirectory(prefix="peers-") as home:
        models = [
            {
                "model_name": "scripted-*",
                "litellm_params": {"model": "openai/scripted-*", "api_base": upstream, "api_key": KEY},
            }
        ]
        config = {"model_list": models, "general_settings": {"master_key": MASTER_KEY}}
        config["litellm_settings"] = {"num_retries": 0, "telemetry": False}
        (Path(home) / "config.yaml").write_text(json.dumps(config))
        port = _free_port(address)
        environment = {
            "PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": str(packages),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }  # fmt: skip
        command = [sys.executable, str(packages / "bin" / "litellm"), "--config", f"{home}/config.yaml"]
        command += ["--host", address, "--port", str(port), "--num_workers", "1"]
        log = Path(home) / "log"
        with (
            log.open("wb") as output,
            subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process,
        ):
            try:
                _await(process, address, port, log)
                yield port
            finally:
                process.terminate()


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])


def _await(process: "subprocess.Popen[bytes]", address: str, port: int, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        link = http.client.HTTPConnection(address, port, timeout=5)
        try:
            link.request("GET", "/health/liveliness")
            if link.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.5)
        finally:
            link.close()
    raise RuntimeError(f"the proxy did not start: {log.read_text()[-1000:]}")


class Runs:
    """Whole runs through one proxy, which starts with the first of them."""

    def __init__(self, packages: Path, runs: WholeRuns) -> None:
        self._packages = packages
        self._runs = runs

    def rows(self) -> list[Row]:
        found = [
            Row(PEER, f"whole run of {len(tasks)}, {mode}", lambda mode=mode: self._run(mode, MASTER_KEY, *RUNS[mode]))
            for mode, (tasks, _) in RUNS.items()
        ]
        # Without a database the proxy cannot look up a key, and says 400 with the code `no_db_connection`.
        refused = Expected("incomplete", 0, 0, ("serving_runtime",))
        act = partial(self._run, Mode.POSITIVE, MASTER_KEY + "x", ONE_TASK, refused)
        return [*found, Row(PEER, "whole run of 1, with a key that is not the proxy's", act)]

    @cached_property
    def _base_url(self) -> str:
        upstream = self._runs.stack.enter_context(scripted("127.0.0.1"))
        port = self._runs.stack.enter_context(proxy(self._packages, self._runs.address, upstream))
        return f"http://{self._runs.address}:{port}/v1"

    def _run(self, mode: Mode, key: str, tasks: tuple[str, ...], expected: Expected) -> str:
        name = f"peers-{mode}" if key == MASTER_KEY else "peers-other-key"
        return self._runs.run(name, f"scripted-{mode}", self._base_url, key, tasks, expected)


def passed_through(packages: Path) -> list[Row]:
    """The other APIs through the proxy, whole and as a stream."""
    return [
        Row(PEER, f"{api} passed through, streamed and not", lambda path=path: _ask_all(packages, path))
        for path, api in APIS.items()
    ]


def _ask_all(packages: Path, path: str) -> str:
    asks = []
    for mode in ASKED:
        for stream in (False, True):
            text = "the file is /app/ledger.csv"
            said: dict[str, Any] = (
                {"input": text} if path == "/v1/responses" else {"messages": [{"role": "user", "content": text}]}
            )
            more = {"max_tokens": 64} if path == "/v1/messages" else {}
            asks.append([path, {"model": f"scripted-{mode}", "stream": stream, **said, **more}])
    models = tuple(f"scripted-{mode}" for mode in ASKED)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder, Site(Path(folder) / "run") as site:
        address = str(site.server.server_address[0])
        upstream = f"http://{address}:{site.server.port}/v1"
        with proxy(packages, address, upstream) as port:
            plan = {
                "base_url": f"http://127.0.0.1:{port}/v1", "pass_through": PassThrough((APIS[path],), models, 600.0),
                "max_steps": len(asks), "request_timeout_s": 60.0,
            }  # fmt: skip
            with site.gateway(models[0], MASTER_KEY, **plan) as gateway:
                env = {"ASK": json.dumps(asks), "TOKEN": gateway.token(1)}
                printed = site.run(CLIENT, network=site.networks.internal.id, env=env, gateway=gateway)
                end = site.close(gateway)
    heard = [json.loads(line) for line in printed.splitlines()]
    expected = [ASKED[mode] for mode in ASKED for _ in (False, True)]
    lines = end.ledger.trial(1).requests
    assert end.problem is None and end.ledger.intact, end.problem
    assert [(line.kind, line.status) for line in lines] == expected, [
        (line.kind, line.code, line.status) for line in lines
    ]
    assert [status for status, _ in heard] == [status for _, status in expected], heard
    good = [(kind, line) for (_, kind), line in zip(heard, lines, strict=True) if line.kind == "ok"]
    assert [kind.startswith("text/event-stream") for kind, _ in good] == [False, True] * 2, good
    silent = [
        stream for stream, (_, line) in zip([False, True] * 2, good, strict=True) if line.completion_tokens is None
    ]
    usage = (
        "usage reported"
        if not silent
        else "usage reported but in streams"
        if all(silent)
        else f"usage missing: {silent}"
    )
    return f"positive and negative: completions, streams as streams; unauthorized 401; rate-limited 429; {usage}"
