"""A harness that is killed while its agent works: what it left is salvaged, removed, and named for what it is."""

import os
import signal
import tarfile
from pathlib import Path
from typing import Any

import pytest

from runs.ownership import Journal, ResourceStage
from tests.engine.conftest import KILLED, EndedRun, Gate
from tests.engine.looking import After, look_after

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture(scope="module")
def killed(gate: Gate) -> tuple[EndedRun, After]:
    run = gate.start_and_wait(KILLED, "config-merge", until="config-merge")
    attendant, sandbox = [one.identity for one in Journal(gate.site.run_folder(run)).read().processes]
    assert attendant.sid != sandbox.sid
    os.kill(attendant.pid, signal.SIGKILL)
    document = gate.site.ended(run)
    return EndedRun(document, gate.site.run_folder(run), gate.stage), look_after(gate.site, run)


def test_its_containers_are_found_by_their_journal_and_removed(killed: tuple[EndedRun, After]) -> None:
    run, after = killed
    assert run.run["cleanup"] == "clean"
    assert after.containers_left == after.networks_left == []
    assert {resource.stage for resource in after.journal.resources} == {ResourceStage.REMOVED}
    assert [pid for pid, seen in after.processes.items() if run.run["run"].encode() in seen] == []


def test_the_agents_logs_are_salvaged_before_its_container_is_removed(killed: tuple[EndedRun, After]) -> None:
    run, _ = killed
    salvaged = run.folder / "trials" / "1" / "salvaged" / "agent-logs.tar"
    with tarfile.open(salvaged) as logs:
        assert "mini-swe-agent.txt" in {Path(name).name for name in logs.getnames()}


def test_it_is_not_evaluated_and_says_that_its_harness_was_killed(killed: tuple[EndedRun, After]) -> None:
    trial: dict[str, Any] = killed[0].trial(1)
    assert (trial["bucket"], trial["reward"]) == ("error", None)
    assert trial["class"] in ("harness", "worker_runtime") and trial["code"].startswith(trial["class"])
    assert (killed[0].run["verdict"], killed[0].run["exit_code"]) == ("error", 4)
