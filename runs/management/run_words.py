"""How is a run told in a terminal and in JSON? One shape for start, status, cancel and cleanup."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runs.management.output import exit_of
from runs.models import OwnedResource, Run, RunState, Trial
from runs.outcomes.codes import CODES

RUN_SCHEMA = "benchsite.run/v1"
_BUCKETS = ("requested", "evaluated", "passed", "failed", "error", "cancelled")


def counts_of(run: Run) -> dict[str, int]:
    """The six counts, which always add up once the run has ended."""
    return {name: getattr(run, f"count_{name}") for name in _BUCKETS}


def count_strip(run: Run) -> str:
    """The run's counts with their sums."""
    return strip_of(counts_of(run))


def strip_of(c: Mapping[str, int]) -> str:
    """Six counts with their sums, as in ``3 requested = 2 evaluated (1 passed + 1 failed) + 1 error + 0 cancelled``."""
    ended = c["evaluated"] + c["error"] + c["cancelled"]
    rest = "" if ended == c["requested"] else f" + {c['requested'] - ended} not ended"
    graded = f"{c['evaluated']} evaluated ({c['passed']} passed + {c['failed']} failed)"
    return f"{c['requested']} requested = {graded} + {c['error']} error + {c['cancelled']} cancelled{rest}"


def counts_aloud(run: Run) -> str:
    """Only the counts that are not 0, for a narrow column: ``2 passed, 1 error of 3``."""
    c = counts_of(run)
    named = [f"{c[name]} {name}" for name in ("passed", "failed", "error", "cancelled") if c[name]]
    return f"{', '.join(named) or 'none ended'} of {c['requested']}"


def coverage(c: Mapping[str, int]) -> str:
    """Both rates, never one without the other: ``2 of 2 evaluated passed · 2 of 3 requested evaluated``."""
    passed = f"{c['passed']} of {c['evaluated']} evaluated passed" if c["evaluated"] else "nothing evaluated"
    return f"{passed} · {c['evaluated']} of {c['requested']} requested evaluated"


def state_line(run: Run) -> str:
    """Where the run is, in one line: state, stage, trial; or verdict and cleanup."""
    if run.terminal:
        return f"run {run.key} {run.state}: verdict {run.verdict}, cleanup {run.cleanup}"
    if run.state == RunState.QUEUED:
        return f"run {run.key} queued{_waits_for(run)}"
    trial = f" {run.stage_trial}" if run.stage_trial else ""
    stage = "" if run.stage == run.state else f", {run.stage}{trial}"
    asked = ", cancellation asked for" if run.cancel_requested_at else ""
    return f"run {run.key} {run.state}{stage}{asked}"


def _waits_for(run: Run) -> str:
    if run.worker.alive:
        return ""
    return f"; worker {run.worker.name} is not running: start it there with manage.py worker"


def trial_line(trial: Trial, of: int) -> str:
    """What became of a trial, or what it is doing, in one line."""
    why = f" {_reason(trial)}" if trial.failure_code else ""
    return f"trial {trial.ordinal} of {of}, {trial.task_name}: {trial.bucket or trial.stage or 'waiting'}{why}"


def failure_line(run: Run) -> str:
    """Why the run failed as a whole, or nothing."""
    known = CODES.get(run.failure_code)
    return f"failed in {run.failure_stage}: {run.failure_code}{f' ({known.title})' if known else ''}"


def _reason(trial: Trial) -> str:
    known = CODES.get(trial.failure_code)
    return f"{trial.failure_code} ({known.title})" if known else trial.failure_code


def trial_rows(run: Run) -> list[list[object]]:
    """Rows for a table: ordinal, task, result, code, reward, steps."""
    return [
        [trial.ordinal, trial.task_name, trial.bucket or trial.stage or "waiting", trial.failure_code or "-",
         "not graded" if (reward := _reward(trial)) is None else reward,
         "not recorded" if trial.steps is None else trial.steps]
        for trial in run.trials.all()
    ]  # fmt: skip


def _reward(trial: Trial) -> int | None:
    """The grade; null of a trial that was not evaluated, whose row may keep a reward that nobody may count."""
    return trial.reward if trial.evaluated else None


TRIAL_HEADINGS = ("#", "task", "result", "code", "reward", "steps")


def run_json(run: Run, *, private: bool = False) -> dict[str, Any]:
    """The run as documented for ``--json`` (schema ``benchsite.run/v1``); ``private`` adds owned ids."""
    document: dict[str, Any] = {
        "run": run.key,
        "state": run.state,
        "stage": run.stage,
        "stage_trial": run.stage_trial,
        "verdict": run.verdict,
        "cleanup": run.cleanup,
        "counts": counts_of(run),
        "suite": run.suite,
        "profile": run.profile.name,
        "bundle": {"name": run.bundle.name, "revision": run.bundle.revision},
        "endpoint": {"name": run.endpoint.name, "version": run.endpoint.version},
        "worker": run.worker.name,
        "spec_sha256": run.spec_sha256,
        "created_at": _time(run.created_at),
        "created_by": run.created_by_name,
        "started_at": _time(run.claimed_at),
        "ended_at": _time(run.ended_at),
        "cancel_requested_at": _time(run.cancel_requested_at),
        "failure": _failure(run),
        "trials": [_trial(trial) for trial in run.trials.all()],
        "exit_code": int(exit_of(run)) if run.terminal else None,
    }
    if private:
        document["owned"] = [_resource(resource) for resource in run.resources.all()]
    return document


def _failure(run: Run) -> dict[str, str] | None:
    if not run.failure_code:
        return None
    return {"stage": run.failure_stage, "class": run.failure_class, "code": run.failure_code}


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "ordinal": trial.ordinal,
        "task": trial.task_name,
        "checksum": trial.task_checksum,
        "trial_uuid": None if trial.trial_uuid is None else str(trial.trial_uuid),
        "bucket": trial.bucket,
        "class": trial.failure_class or None,
        "code": trial.failure_code or None,
        "reward": _reward(trial),
        "steps": trial.steps,
        "prompt_tokens": trial.prompt_tokens,
        "completion_tokens": trial.completion_tokens,
        "started_at": _time(trial.started_at),
        "ended_at": _time(trial.ended_at),
        "badges": trial.badges,
    }


def _resource(resource: OwnedResource) -> dict[str, Any]:
    return {
        "kind": resource.kind,
        "role": resource.role,
        "trial": resource.trial,
        "id": resource.resource_id,
        "stage": resource.stage,
        "outcome": resource.outcome,
        "detail": resource.detail,
        "left": resource.left,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
