"""The gate's own site and its runs. Each run is made once and looked at by many tests."""

import secrets
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runs.scripted.scripts import TASKS, Mode, Step, script
from runs.scripted.server import DATE
from tests.engine import hostility
from tests.engine.looking import CONTAINERS, After, Live, look_after, look_live, started_roles
from tests.engine.plays import Stage, record
from tests.engine.site import GateSite, copied_site, prepared_site, serving, wait_until

HANG, HOSTILE, FAILING, KILLED, LOST = "gate-hang", "gate-hostile", "gate-failing", "gate-killed", "gate-lost"
OUTPUTS, BUDGET = "gate-outputs", "gate-budget"
# A model that takes the limit of tokens by its newer name only, and that answers with a date in its name.
NEWER = "gate-gpt-5"
# Forms of real endpoints: a mode for each of the three tasks.
FORMS = {
    "gate-forms-kept": (Mode.SIGNED, Mode.IN_PARTS, Mode.ODD_NAME),
    "gate-forms-ended": (Mode.CONTEXT_OVERFLOW, Mode.REASONING_CUT, Mode.REFUSING),
    "gate-forms-failing": (Mode.RATE_LIMITED, Mode.RATE_LIMITED_INSIDE, Mode.BANNER),
    NEWER: (Mode.POSITIVE, Mode.DATED_NAME, Mode.NO_USAGE),
}
# The readiness question takes less of it, and an agent's first question more.
ON_A_BUDGET = {
    "schema": "benchsite.endpoint/v2", "served_models": [], "private_addresses": "allowed",
    "prices": {"currency": "USD", "date": "2026-11-30", "input": "2.50", "output": "10.00"},
    "limits": {"requests_per_minute": 1_000},
    "budgets": {"run": {"tokens": 400}, "day": {"tokens": 1_000_000, "money": "10.00"}},
}  # fmt: skip
# The agent shows all that it can find of its own secrets, so that what it can see is on record.
TELL = Step("I look for keys.", "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' ' '")


@dataclass(frozen=True)
class Gate:
    """A running worker on a site of its own, the endpoint's stage and its secret key."""

    site: GateSite
    stage: Stage
    key: str
    base_url: str
    worker: int

    def start(self, alias: str, *tasks: str) -> str:
        """A new run's id; what an earlier one of the alias was heard to say is forgotten, since tests wait for it."""
        self.stage.forget(alias)
        return self.site.start(alias, *tasks)

    def start_and_wait(self, alias: str, *tasks: str, until: str) -> str:
        """A new run whose agent waits for an answer about the task ``until``; the containers of that trial are ready.

        The verifier's is started beside the agent, which may well ask its first question before it stands.
        """
        run, ended = self.start(alias, *tasks), "select verdict from runs_run where id = ?"
        wait_until(
            lambda: (
                self.site.value(ended, run)
                or ((alias, until) in self.stage.heard and started_roles(self.site, run) >= set(CONTAINERS))
            )
        )
        assert self.site.value(ended, run) is None, self.site.status(run)
        return run


@pytest.fixture(scope="session")
def prepared() -> Iterator[GateSite]:
    site = prepared_site()
    yield site
    site.stop_queue()
    shutil.rmtree(site.data)


@pytest.fixture(scope="session")
def gate(prepared: GateSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    key = f"sk-sentinel/+=&{secrets.token_urlsafe(18)}"
    key_file = tmp_path_factory.mktemp("key") / "key"
    key_file.touch(0o600)
    key_file.write_text(key + "\n")
    stage = Stage({})
    with serving(stage, key) as base_url:
        stage.plays = _plays(base_url)
        for alias in (HANG, HOSTILE, FAILING, KILLED, LOST, OUTPUTS, *FORMS):
            other = {"served_model": alias + DATE} if alias == NEWER else {}
            prepared.register(record(alias, base_url, str(key_file)) | other)
        prepared.register(_of_v2(record(BUDGET, base_url, str(key_file))) | ON_A_BUDGET)
        with prepared.worker() as worker:
            yield Gate(prepared, stage, key, base_url, worker)


def _of_v2(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "served_model"}


def _plays(base_url: str) -> dict[str, Any]:
    host, port = base_url.split("/")[2].split(":")
    places = [(host, int(port)), (host, 22), (_own_address(), int(port)), (_own_address(), 22), ("192.0.2.1", 80)]
    ledger, merge, tree = TASKS
    return {
        HANG: {ledger.name: [TELL, *script(Mode.POSITIVE, ledger)], merge.name: Mode.HANG},
        HOSTILE: {
            ledger.name: hostility.exhausting(places),
            merge.name: hostility.asking(HOSTILE),
            tree.name: Mode.POSITIVE,
        },
        OUTPUTS: {
            ledger.name: hostility.leaving(Mode.POSITIVE, ledger, hostility.SPOIL),
            merge.name: hostility.leaving(Mode.NEGATIVE, merge, hostility.LINK),
            tree.name: hostility.leaving(Mode.POSITIVE, tree, hostility.LINK),
        },
        KILLED: {merge.name: Mode.HANG},
        BUDGET: {ledger.name: Mode.POSITIVE},
        LOST: {ledger.name: Mode.POSITIVE, merge.name: Mode.HANG},
        **{alias: dict(zip((task.name for task in TASKS), modes, strict=True)) for alias, modes in FORMS.items()},
        FAILING: {ledger.name: Mode.UNAVAILABLE, merge.name: Mode.MALFORMED, tree.name: Mode.LATE_FAILURE},
    }


def _own_address() -> str:
    """This machine's own address; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@dataclass(frozen=True, repr=False)
class CancelledRun:
    """The run that was cancelled while its second agent waited: looked at while it lived, and after."""

    live: Live
    after: After
    run: dict[str, Any]
    told: str
    worker_alive: bool


@pytest.fixture(scope="session")
def cancelled(gate: Gate) -> CancelledRun:
    run = gate.start_and_wait(HANG, "ledger-totals", "config-merge", until="config-merge")
    live = look_live(gate.site, run)
    gate.site.done("cancel", run)
    document = gate.site.ended(run)
    alive = Path(f"/proc/{gate.worker}").exists()
    return CancelledRun(live, look_after(gate.site, run), document, gate.stage.printed(HANG, "ledger-totals"), alive)


@dataclass(frozen=True, repr=False)
class EndedRun:
    """A run that ended by itself: its document, its folder, and what its agents told the endpoint."""

    run: dict[str, Any]
    folder: Path
    stage: Stage

    def trial(self, ordinal: int) -> dict[str, Any]:
        trial: dict[str, Any] = self.run["trials"][ordinal - 1]
        return trial


@pytest.fixture(scope="session")
def hostile(gate: Gate) -> EndedRun:
    return _ended(gate, HOSTILE)


@pytest.fixture(scope="session")
def outputs(gate: Gate) -> EndedRun:
    return _ended(gate, OUTPUTS)


@pytest.fixture(scope="session")
def failing(gate: Gate) -> EndedRun:
    return _ended(gate, FAILING)


@pytest.fixture(scope="session")
def budgeted(gate: Gate) -> EndedRun:
    return _ended(gate, BUDGET)


@pytest.fixture(scope="session")
def forms(gate: Gate) -> dict[str, EndedRun]:
    return {alias: _ended(gate, alias) for alias in FORMS}


def _ended(gate: Gate, alias: str) -> EndedRun:
    run = gate.start(alias)
    return EndedRun(gate.site.ended(run), gate.site.run_folder(run), gate.stage)


@pytest.fixture
def world(gate: Gate) -> Iterator[GateSite]:
    """A site of one test, whose surroundings it may break."""
    site = copied_site(gate.site)
    yield site
    site.stop_queue()
    shutil.rmtree(site.data)
