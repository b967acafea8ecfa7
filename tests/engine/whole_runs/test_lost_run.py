"""The process that carries a run out is killed with real containers open: the worker concludes it at once."""

import json
import os
import signal
from pathlib import Path

import pytest

from evidence.trajectory.transcript import Proof, read_exchanges
from runs.documents.ledger import read_ledger
from runs.ownership import Journal, ResourceStage, identity_is_alive
from tests.engine.conftest import LOST, EndedRun, Gate
from tests.engine.looking import After, look_after

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture(scope="module")
def lost(gate: Gate) -> tuple[EndedRun, After]:
    run = gate.start_and_wait(LOST, "ledger-totals", "config-merge", "file-tree", until="config-merge")
    pid = gate.site.value("select lease_pid from runs_run where id = ?", run)
    assert pid != gate.worker
    os.kill(pid, signal.SIGKILL)
    document = gate.site.ended(run)
    return EndedRun(document, gate.site.run_folder(run), gate.stage), look_after(gate.site, run)


def test_what_was_graded_stays_and_the_rest_is_interrupted(lost: tuple[EndedRun, After]) -> None:
    run = lost[0].run
    assert (run["state"], run["verdict"], run["cleanup"]) == ("interrupted", "error", "clean")
    assert [(one["bucket"], one["code"], one["reward"]) for one in run["trials"]] == [
        ("passed", None, 1),
        ("error", "worker_runtime.interrupted", None),
        ("error", "worker_runtime.interrupted", None),
    ]
    counts = run["counts"]
    assert (counts["evaluated"], counts["passed"], counts["error"], counts["cancelled"]) == (1, 1, 2, 0)


def test_its_harness_that_lived_on_is_stopped_and_nothing_owned_is_left(lost: tuple[EndedRun, After]) -> None:
    run, after = lost
    assert after.containers_left == after.networks_left == []
    assert {resource.stage for resource in after.journal.resources} == {ResourceStage.REMOVED}
    assert after.journal.fence is not None
    recorded = [process.identity for process in Journal(run.folder).read().processes]
    assert recorded and not any(identity_is_alive(identity) for identity in recorded)
    assert [pid for pid, seen in after.processes.items() if run.run["run"].encode() in seen] == []


def test_the_interrupted_agents_logs_and_the_ledger_are_kept(lost: tuple[EndedRun, After]) -> None:
    folder = lost[0].folder
    second = folder / "trials" / "2"
    logs = [path for path in second.rglob("*") if path.is_file() and ("agent" in path.parts or "agent" in path.name)]
    assert Path(second / "observed.jsonl").exists() and logs
    kinds = [json.loads(line)["kind"] for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert kinds.count("ok") >= 4


def test_every_exchange_of_the_killed_worker_is_in_its_transcripts(lost: tuple[EndedRun, After]) -> None:
    folder = lost[0].folder
    ledger = read_ledger((folder / "ledger.jsonl").read_bytes())
    proofs: dict[int, list[Proof]] = {}
    for trial in (1, 2):
        with (folder / "trials" / str(trial) / "transcript.jsonl").open("rb") as file:
            proofs[trial] = [one.proof for one in read_exchanges(file, ledger.trial(trial), trial=trial)]
    assert len(proofs[1]) >= 4 and set(proofs[1] + proofs[2]) == {Proof.MATCHES}


def test_nothing_is_executed_again(lost: tuple[EndedRun, After], gate: Gate) -> None:
    run = lost[0].run["run"]
    assert gate.site.values("select id from runs_run where ended_at is null") == []
    assert gate.site.value("select count(*) from runs_run where id = ?", run) == 1
    assert (LOST, "file-tree") not in gate.stage.heard
