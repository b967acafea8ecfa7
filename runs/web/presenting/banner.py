"""The verdict banner of a run's page: one word and one sentence. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.text import capfirst

from benchsite.lib import words
from runs.checks import readiness
from runs.models.states import Cleanup, RunState, Stage
from runs.models.workers import STALE_AFTER
from runs.outcomes.buckets import Verdict
from runs.outcomes.codes import CODES
from runs.web.presenting import status_marks
from runs.web.presenting.counts import Counts

if TYPE_CHECKING:
    from runs.models import Run

_NO_VERDICT_YET = "The verdict follows when every trial has ended."
_STAGE_WORDS = {
    Stage.PREFLIGHT: "Checking once more on the worker that nothing changed since the preview.",
    Stage.GATEWAY: "Creating the networks and the gateway.",
    Stage.PROBE: "Proving that a container reaches nothing but the gateway, before any agent starts.",
    Stage.INGEST: "All trials have ended; the evidence is being hashed and graded.",
    Stage.CLEANUP: "Removing everything that this run created, and verifying that it is gone.",
}
_DOING = {"setup": "setting up", "agent": "the agent is working", "verifier": "the verifier is grading"}


@dataclass(frozen=True, slots=True)
class Banner:
    """``mark`` gives shape, word and tone; ``code`` is set when the run as a whole failed."""

    mark: status_marks.Mark
    sentence: str
    code: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the banner's sentence needs beside the run's own row."""

    counts: Counts
    floor: float | None
    left: int
    worker: str
    waits_for: str = ""  # of a queued run: what keeps it waiting, a sentence
    integrity: bool | None = None  # whether every check of it held; None while that is not known
    current_task: str = ""
    current_stage: str = ""


def counts_of(run: "Run", unjudged: int = 0) -> Counts:
    """The run's denormalised counts; how many trials ended without being judged yet, only its trials know."""
    return Counts(
        requested=run.count_requested,
        passed=run.count_passed,
        failed=run.count_failed,
        error=run.count_error,
        cancelled=run.count_cancelled,
        ended=run.terminal,
        unjudged=unjudged,
    )


def banner(run: "Run", situation: Situation) -> Banner:
    """Word, sentence, and for a run that failed as a whole its code and remedy."""
    mark = status_marks.of_run(run)
    if not run.terminal:
        return Banner(mark, _live(run, situation))
    known, not_ready = CODES.get(run.failure_code), readiness.sentence_and_remedy(run.failure_code)
    left = _left(run, situation)
    return Banner(
        mark,
        " ".join(part for part in (_ended(run, situation), left) if part),
        code=run.failure_code,
        remedy=known.remedy if known else not_ready[1] if not_ready else "",
    )


def is_stale(run: "Run", now: datetime) -> bool:
    """Whether the run is being executed but its worker has been silent for too long."""
    return run.active and (run.heartbeat_at is None or now - run.heartbeat_at > STALE_AFTER)


def _live(run: "Run", situation: Situation) -> str:
    if run.state == RunState.QUEUED:
        why = f" {situation.waits_for}" if situation.waits_for else ""
        return f"Waiting for {situation.worker}.{why} Nothing has been created yet."
    if run.cancel_requested_at:
        who, at = run.cancel_requested_by_name, run.cancel_requested_at
        return (
            f"Asked by {who} at {at:%H:%M:%S}. What runs is being stopped and removed; pressing again changes nothing."
        )
    if run.stage == Stage.TRIAL and run.stage_trial:
        doing = _DOING.get(situation.current_stage, "started")
        task = f", {situation.current_task}" if situation.current_task else ""
        return f"Task {run.stage_trial} of {run.count_requested}{task}: {doing}. {_NO_VERDICT_YET}"
    return f"{_STAGE_WORDS.get(Stage(run.stage), '')} {_NO_VERDICT_YET}".strip()


def _ended(run: "Run", situation: Situation) -> str:
    counts = situation.counts
    if run.verdict == Verdict.CANCELLED:
        who = run.cancel_requested_by_name or "Somebody"
        if not counts.evaluated:
            return f"{who} cancelled before any trial was graded."
        return f"{who} cancelled after {words.counted(counts.evaluated, 'trial')}; the rest was stopped before grading."
    if run.failure_code or run.state in (RunState.FAILED, RunState.INTERRUPTED):
        return _failed_as_a_whole(run, counts)
    if run.verdict == Verdict.PASSED:
        return f"{_all(counts)} graded and all passed. Nothing was left behind."
    if run.verdict == Verdict.FAILED:
        floor = situation.floor
        asked = "all" if floor is None or floor >= 1 else f"a pass rate of {floor:.2f}"
        return f"{_all(counts)} graded; {words.spelled(counts.passed)} passed, and the profile requires {asked}."
    if not counts.error:
        why = "an integrity check failed, so " if situation.integrity is False else ""
        return f"{_all(counts)} graded, but {why}this run does not count as a pass."
    was = "was" if counts.error == 1 else "were"
    noun = "trial" if counts.requested == 1 else "trials"
    subject = f"{capfirst(words.spelled(counts.error))} of {words.spelled(counts.requested)} {noun}"
    return f"{subject} {was} not graded, so this run neither passed nor failed."


def _all(counts: Counts) -> str:
    if counts.requested == 1:
        return "The one trial was"
    return f"All {words.spelled(counts.requested)} trials were"


def _failed_as_a_whole(run: "Run", counts: Counts) -> str:
    known = CODES.get(run.failure_code)
    if known and "{" not in known.sentence:
        sentence = known.sentence.removesuffix(
            " The trial was not evaluated and counts neither as passed nor as failed."
        )
    elif not_ready := readiness.sentence_and_remedy(run.failure_code):
        sentence = not_ready[0]
    elif run.state == RunState.INTERRUPTED:
        sentence = "The worker was lost while it executed this run."
    else:
        stage = run.failure_stage or run.stage
        sentence = f"The run could not be carried out: it ended in its {stage} stage."
    graded = (
        "no trial was graded" if not counts.evaluated else f"{words.counted(counts.evaluated, 'trial')} had been graded"
    )
    return f"{sentence} {capfirst(graded)}."


def _left(run: "Run", situation: Situation) -> str:
    if run.cleanup == Cleanup.DECLARED:
        return "The cleanup was declared complete by a person and never verified."
    if run.cleanup != Cleanup.FAILED:
        return ""
    if not situation.left:
        return "The cleanup did not finish, so something may be left behind."
    are = "resource is" if situation.left == 1 else "resources are"
    return f"{capfirst(words.spelled(situation.left))} owned {are} still on {situation.worker}."
