"""What failed after our own supervisor stopped a trial is a consequence of that; what failed before is the cause."""

from pathlib import Path

import pytest

from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from tests.evidence.folders import RunCase, at, passing_run
from tests.evidence.folders import transfer as transferred

TRIAL, RUN = "incomplete.trial_deadline", "incomplete.run_deadline"
CAUSE = "worker_runtime.stop_failed"


def stopped(phase: str, failed_at: float, *, transfer: bool = False) -> RunCase:
    """The second trial, which began at 100 s, was stopped at a limit of 600 s of its own or of 500 s of the run."""
    run = passing_run(2)
    run.spec["limits"] |= {"trial_s": 600, "run_s": 500}
    trial = run.trials[1]
    trial.end_after_agent()
    trial.event("exec", purpose="agent").update(exit_code=None, cancelled=True)
    trial.result = None
    assert trial.supervision is not None
    trial.supervision.update(deadline=phase, exit_code=None, signal=15, ended_at=at(720))
    trial.supervision["mono_ended"] = trial.mono + 620
    run.run.update(deadline=phase if phase == "run" else None, ended_at=at(730))
    when = {"at": at(failed_at), "mono": trial.mono + failed_at - 100}
    if transfer:
        moved = {**transferred("download", "agent_logs", "/logs/agent"), "outcome": "failed", "code": "x"}
        for event in ({"event": "killed_others", "remaining": 0}, moved):
            trial.events.append({**event, "role": "agent", **when})
    else:
        failed = {"event": "failure", "where": "stop", "code": "engine.stop", "detail": "", "role": "agent"}
        trial.events.append({**failed, **when})
    return run


@pytest.mark.parametrize(
    ("phase", "failed_at", "code"),
    [
        ("trial", 699.0, CAUSE),
        ("trial", 701.0, TRIAL),
        ("run", 499.0, CAUSE),
        ("run", 501.0, RUN),
        ("run", 599.0, RUN),
    ],
)
def test_a_failure_is_a_cause_before_the_stop_and_a_consequence_after(
    phase: str, failed_at: float, code: str, tmp_path: Path
) -> None:
    found = read_run(stopped(phase, failed_at).write(tmp_path / "run")).trials[1]
    assert classify_trial(found).code == code


@pytest.mark.parametrize(("failed_at", "code"), [(699.0, "worker_runtime.transfer_failed"), (701.0, TRIAL)])
def test_a_transfer_too(failed_at: float, code: str, tmp_path: Path) -> None:
    found = read_run(stopped("trial", failed_at, transfer=True).write(tmp_path / "run")).trials[1]
    assert classify_trial(found).code == code
