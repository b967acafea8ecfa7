"""One trial's normalized result: the document that pages, exports and the register keep."""

from pathlib import PurePosixPath
from typing import Any

from evidence.reading.clocks import Interval
from evidence.trial.classify import Classification
from evidence.trial.facts import TrialFacts
from runs.outcomes.buckets import Bucket

SCHEMA = "benchsite.trial-result/v1"


def trial_document(
    facts: TrialFacts, result: Classification, evidence: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    """The normalized result. `evidence` holds the register's references: path, size, sha256, state, kind.

    Public as a whole: no exception text, no private detail. What was not recorded is null, never 0.
    """
    return {
        "schema": SCHEMA,
        "case_id": facts.task,
        "trial": facts.trial,
        "trial_id": facts.trial_uuid,
        "task_checksum": facts.task_checksum,
        "bucket": result.bucket.value,
        "execution_status": execution_status(facts),
        "verifier_status": verifier_status(facts),
        "reward": result.reward,
        "reward_seen": facts.reward.state.value_or_none,
        "task_passed": result.bucket is Bucket.PASSED if result.evaluated else None,
        "failure": None
        if result.evaluated
        else {"class": result.klass.value, "code": result.code, "sentence": result.sentence},
        "code": result.code,
        "row": result.row,
        "step": result.step.value,
        "title": result.title,
        "sentence": result.sentence,
        "badges": list(result.badges),
        "timings": {"trial": timing_document(facts.total)}
        | {name: timing_document(interval) for name, interval in facts.phases.items()},
        "usage": usage_document(facts),
        "counters": {
            "available": facts.resources.available,
            "oom_kills": facts.resources.oom_kills if facts.resources.available else None,
            "pids_limit_hits": facts.resources.pids_limit_hits if facts.resources.available else None,
            "tmpfs_full": facts.resources.tmpfs_full if facts.resources.available else None,
        },
        "output": {"refused": facts.output.refused or None, "passed_over": facts.output.passed_over},
        "reward_files": [
            {"name": PurePosixPath(path).name, "size": size, "sha256": digest}
            for path, size, digest in facts.reward.files
        ],
        "checks": {"total": len(facts.checks), "failed": sorted({c.name for c in facts.checks if not c.ok})},
        "evidence": list(evidence),
    }


def execution_status(facts: TrialFacts) -> str:
    if not facts.started:
        return "not_started"
    if facts.agent.timed_out:
        return "timed_out"
    if not facts.agent.ended:
        return "no_end_recorded"
    return "ended_with_error" if facts.agent.ended_with_error else "ended"


def verifier_status(facts: TrialFacts) -> str:
    if not facts.verifier.ended:
        return "not_run" if facts.verifier.exit_code is None else "no_end_recorded"
    if facts.verifier.exit_code != 0:
        return "ended_with_error"
    return "ended" if facts.verifier.terminal else "files_not_fetched"


def usage_document(facts: TrialFacts) -> dict[str, Any]:
    """Tokens as the endpoint reported them to the gateway, and what they cost; null where that is not known."""
    return {
        "source": "gateway ledger",
        "requests_answered": facts.endpoint.completions,
        "requests_failed": facts.endpoint.failures,
        "requests_refused": facts.endpoint.refusals,
        "answers_cut": facts.endpoint.cut,
        "answers_refused": facts.endpoint.model_refusals,
        "context_overflows": facts.endpoint.context_overflows,
        "prompt_tokens": facts.endpoint.prompt_tokens,
        "completion_tokens": facts.endpoint.completion_tokens,
        "cost": None if facts.cost is None else facts.cost.document,
    }


def timing_document(interval: Interval) -> dict[str, Any]:
    return {
        "started_at": interval.started_at,
        "ended_at": interval.ended_at,
        "seconds": interval.seconds,
        "clock": interval.clock,
    }
