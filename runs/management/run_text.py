"""Runs, trials and checks as text for a terminal."""

from collections.abc import Iterable, Mapping
from typing import Any

from runs.documents.run_spec import covered
from runs.management.printing import Printer
from runs.models import Run, RunState, Trial
from runs.outcomes import buckets
from runs.outcomes.codes import CODES
from runs.serializers.runs import cases_of, counts_of, reward_of

TRIAL_HEADINGS = ("#", "task", "result", "code", "reward", "steps")


def count_strip(c: Mapping[str, int]) -> str:
    """Six counts with their sums, as in ``3 requested = 2 graded (1 passed + 1 failed) + 1 error + 0 cancelled``."""
    ended = c["evaluated"] + c["error"] + c["cancelled"]
    rest = "" if ended == c["requested"] else f" + {c['requested'] - ended} not ended"
    graded = f"{c['evaluated']} graded ({c['passed']} passed + {c['failed']} failed)"
    return f"{c['requested']} requested = {graded} + {c['error']} error + {c['cancelled']} cancelled{rest}"


def nonzero_counts(run: Run) -> str:
    """Only the counts that are not 0, for a narrow column: ``2 passed, 1 error of 3``."""
    c = counts_of(run)
    named = [f"{c[name]} {name}" for name in ("passed", "failed", "error", "cancelled") if c[name]]
    return f"{', '.join(named) or 'none ended'} of {c['requested']}"


def coverage(c: Mapping[str, int]) -> str:
    """Both rates of a run's counts: ``Passed: 2 of 2 · Graded: 2 of 3``."""
    return buckets.coverage(passed=c["passed"], evaluated=c["evaluated"], requested=c["requested"])


def state_line(run: Run) -> str:
    """Where the run is, in one line: state, stage, trial; or verdict and cleanup."""
    if run.terminal:
        return f"run {run.key} {run.state}: verdict {run.verdict}, cleanup {run.cleanup}"
    if run.state == RunState.QUEUED:
        missing = f"; worker {run.worker.name} is not running: start it there with manage.py worker"
        return f"run {run.key} queued{'' if run.worker.alive else missing}"
    trial = f" {run.stage_trial}" if run.stage_trial else ""
    stage = "" if run.stage == run.state else f", {run.stage}{trial}"
    cancelling = ", cancellation requested" if run.cancel_requested_at else ""
    return f"run {run.key} {run.state}{stage}{cancelling}"


def trial_line(trial: Trial, of: int) -> str:
    """What became of a trial, or what it is doing, in one line."""
    known = CODES.get(trial.failure_code)
    reason = f" {trial.failure_code}{f' ({known.title})' if known else ''}" if trial.failure_code else ""
    return f"trial {trial.ordinal} of {of}, {trial.task_name}: {_result(trial)}{reason}"


def print_run(output: Printer, run: Run) -> None:
    """The trials, why the run failed as a whole if it did, the coverage, and the counts as the last line."""
    output.table(
        TRIAL_HEADINGS,
        [
            [trial.ordinal, trial.task_name, _result(trial), trial.failure_code or "-",
             "not graded" if (reward := reward_of(trial)) is None else reward,
             "not recorded" if trial.steps is None else trial.steps]
            for trial in run.trials.all()
        ],
    )  # fmt: skip
    if run.failure_code:
        known = CODES.get(run.failure_code)
        output.line(f"failed in {run.failure_stage}: {run.failure_code}{f' ({known.title})' if known else ''}")
    if (cases := cases_of(run)) is not None:
        output.line(covered(cases["chosen"], cases["profile"]))
    output.line(coverage(counts_of(run)))
    output.line(count_strip(counts_of(run)))


def print_left(output: Printer, run: Run) -> None:
    """What a run that has ended left behind, a line for each resource."""
    for resource in run.resources.all():
        if run.terminal and resource.left:
            output.line(f"left: {resource.kind} {resource.role} {resource.resource_id}: {resource.detail}")


def print_checks(output: Printer, checks: Iterable[Mapping[str, Any]]) -> None:
    """Every check with what it found. On a terminal only those that do not hold need their code, to look it up."""
    rows = []
    for check in checks:
        passed = check["passed"]
        code = "" if passed and output.on_terminal else check["code"]
        what = check["detail"] if passed else f"{check['detail']} {check['remedy']}".strip()
        rows.append(("ok" if passed else check["level"], check["name"], code or "-", what))
    output.table(("", "check", "code", "what"), rows)


def _result(trial: Trial) -> str:
    return trial.bucket or trial.stage or "waiting"
