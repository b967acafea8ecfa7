"""Documents about runs: run, list of runs, log lines, recovery, a lost host, and the smoke."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import UNTRUSTED_NOTICE, Document, serializes, timestamp
from runs.documents.run_spec import load_spec
from runs.models import LogLine, OwnedResource, Run, Trial
from runs.serializers.errors import exit_of_run
from runs.services.runlog import Window

BUCKETS = ("requested", "evaluated", "passed", "failed", "error", "cancelled")


@serializes("benchsite.run/v1")
def run_document(run: Run, *, private: bool = False, **more: Any) -> Document:
    """A run; ``private`` adds what it owned, ``more`` what a request for it came to (``outcome``, ``asked``)."""
    owned = {"owned": [_resource(resource) for resource in run.resources.all()]} if private else {}
    return {**_run(run), **owned, **more}


@serializes("benchsite.runs/v1")
def runs_document(runs: Iterable[Run]) -> Document:
    """Several runs, in their order."""
    return {"runs": [_run(run) for run in runs]}


@serializes("benchsite.logs/v1")
def logs_document(run: Run, window: Window) -> Document:
    """Log lines from a cursor on."""
    lines = [_log_line(line, "text") for line in window.lines]
    return {"run": run.key, "next_cursor": window.next_cursor, "dropped": window.dropped, "lines": lines}


@serializes("benchsite.mcp-logs/v1")
def mcp_logs_document(run: Run, window: Window) -> Document:
    """Log lines for a reader that must not follow what they say."""
    return {
        "run": run.key,
        "next_cursor": window.next_cursor,
        "dropped": window.dropped,
        "notice": UNTRUSTED_NOTICE,
        "lines": [_log_line(line, "untrusted_text") for line in window.lines],
    }


@serializes("benchsite.recovery/v1")
def recovery_document(found: Mapping[str, list[str]], *, clean: bool) -> Document:
    """Ids of runs by what a recovery did with them."""
    return {**found, "clean": clean}


@serializes("benchsite.host-lost/v1")
def host_lost_document(worker: str, condition: str, runs: Iterable[Run], *, declared: bool) -> Document:
    """The runs that end, or would end, when a worker's host is declared lost."""
    return {"worker": worker, "condition": condition, "declared": declared, "runs": [run.key for run in runs]}


@serializes("benchsite.smoke/v1")
def smoke_document(runs: Sequence[Document], *, held: bool, statement: str) -> Document:
    """What came of each scenario of a smoke."""
    return {"held": held, "statement": statement, "runs": runs}


def counts_of(run: Run) -> dict[str, int]:
    """The six counts, which always add up once the run has ended."""
    return {name: getattr(run, f"count_{name}") for name in BUCKETS}


def reward_of(trial: Trial) -> int | None:
    """The grade; null of a trial that was not evaluated, whose row may keep a reward that nobody may count."""
    return trial.reward if trial.evaluated else None


def _run(run: Run) -> Document:
    failure = {"stage": run.failure_stage, "class": run.failure_class, "code": run.failure_code}
    return {
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
        "cases": cases_of(run),
        "created_at": timestamp(run.created_at),
        "created_by": run.created_by_name,
        "started_at": timestamp(run.claimed_at),
        "ended_at": timestamp(run.ended_at),
        "cancel_requested_at": timestamp(run.cancel_requested_at),
        "failure": failure if run.failure_code else None,
        "trials": [_trial(trial) for trial in run.trials.all()],
        "exit_code": int(exit_of_run(run)) if run.terminal else None,
    }


def cases_of(run: Run) -> dict[str, int] | None:
    """How many cases the profile has, and how many of them were chosen; None of a spec that cannot be read."""
    try:
        spec = load_spec(run.spec.encode()).content
    except DocumentError:
        return None
    return {"profile": spec.case_count, "chosen": len(spec.tasks)}


def _trial(trial: Trial) -> Document:
    return {
        "ordinal": trial.ordinal,
        "task": trial.task_name,
        "checksum": trial.task_checksum,
        "trial_uuid": None if trial.trial_uuid is None else str(trial.trial_uuid),
        "bucket": trial.bucket,
        "class": trial.failure_class or None,
        "code": trial.failure_code or None,
        "reward": reward_of(trial),
        "steps": trial.steps,
        "prompt_tokens": trial.prompt_tokens,
        "completion_tokens": trial.completion_tokens,
        "started_at": timestamp(trial.started_at),
        "ended_at": timestamp(trial.ended_at),
        "badges": trial.badges,
    }


def _resource(resource: OwnedResource) -> Document:
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


def _log_line(line: LogLine, text: str) -> Document:
    """A log line; ``text`` names the field that holds what was said."""
    return {"seq": line.seq, "at": timestamp(line.at), "source": line.source, text: line.text, "cut": line.cut}
