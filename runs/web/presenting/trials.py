"""A run's trials as rows of a table, with their stages on one common clock. Pure over rows."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.text import get_text_list

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from runs.outcomes.codes import BADGES, CODES
from runs.web.presenting import status_marks

if TYPE_CHECKING:
    from runs.models import Run, Trial

_STAGE_SENTENCES = {
    "setup": "The container is being created and the task's files are copied in.",
    "agent": "The agent is working.",
    "verifier": "A separate verifier is grading the agent's work.",
    "ended": "Ended. It is classified with the other trials when the run ends.",
}
_COUNTS_NEITHER = " The trial was not evaluated and counts neither as passed nor as failed."
NOTABLE = (
    "step_limit_reached",
    "command_limit_hit",
    "oom_kills",
    "pids_limit_hit",
    "tmpfs_full",
    "graded_after_limit",
    "output_passed_over",
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """One stage on the clock: kind setup, agent or verify; seconds from the clock's zero."""

    kind: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """One trial in the table. Missing values are words."""

    ordinal: int
    name: str
    mark: status_marks.Mark
    code: str
    sentence: str
    badges: list[str]
    stretches: list[Stretch]
    steps: str
    step_limit: str
    tokens: str
    cost: str
    took: str
    ended: bool
    aloud: str


def row(trial: "Trial", run: "Run", *, max_steps: int | None, now: datetime) -> Row:
    """The table's row of one trial; the clock's zero is when the run was claimed."""
    seconds = seconds_of(trial)
    stretches = _stretches(trial, run, now)
    return Row(
        ordinal=trial.ordinal,
        name=visible(trial.task_name),
        mark=status_marks.of_trial(trial, run),
        code=trial.failure_code if trial.bucket in ("error", "failed") else "",
        sentence=sentence(trial, run),
        badges=[BADGES.get(badge, badge) for badge in trial.badges if badge in NOTABLE],
        stretches=stretches,
        steps=words.number(trial.steps),
        step_limit="" if max_steps is None else f"of {max_steps}",
        tokens=tokens(trial),
        cost=cost(trial),
        took=_took(trial, seconds),
        ended=trial.started_at is not None and bool(trial.bucket),
        aloud=_aloud(stretches),
    )


def sentence(trial: "Trial", run: "Run") -> str:
    """What happened in plain words; never text that came out of a container."""
    if trial.bucket == "passed":
        return "The agent ended and a separate verifier graded its work with reward 1."
    if trial.bucket == "failed" and trial.failure_code:
        return code_sentence(trial.failure_code, {"why": "what cannot be graded"})
    if trial.bucket == "failed":
        return "The agent ended and a separate verifier graded its work with reward 0."
    if trial.bucket == "cancelled":
        return "Stopped before it was graded." if trial.started_at else "Never started: the run was cancelled before."
    if trial.bucket == "error":
        return _stored_sentence(trial) or code_sentence(trial.failure_code)
    if trial.started_at and run.active:
        return _STAGE_SENTENCES.get(trial.stage, "Started.")
    return "Starts when the trial before it has ended." if trial.ordinal > 1 else "Starts when the run is prepared."


def _stored_sentence(trial: "Trial") -> str:
    """The classifier's own sentence with its numbers, as the normalized result keeps it."""
    result = getattr(trial, "error_result", None)
    if result is None:
        result = trial.result
    stored = _sentence_of(result) if result else None
    return visible(stored).removesuffix(_COUNTS_NEITHER) if isinstance(stored, str) else ""


def _sentence_of(result: str) -> Any:
    try:
        document = json.loads(result)
    except ValueError:
        return None
    return document.get("sentence") if isinstance(document, dict) else None


def code_sentence(code: str, values: dict[str, Any] | None = None) -> str:
    """The code table's sentence without what every error has in common; unfilled fields are left out."""
    known = CODES.get(code)
    if known is None:
        return "Not graded; the reason has no entry in this version's table of codes."
    text = known.sentence.removesuffix(_COUNTS_NEITHER)
    if "{" not in text:
        return text
    try:
        return text.format_map(values or {})
    except (KeyError, ValueError, IndexError):
        return f"{known.title}."


def tokens(trial: "Trial") -> str:
    """Prompt and completion tokens, or that they were not reported."""
    if trial.prompt_tokens is None and trial.completion_tokens is None:
        return words.NOT_REPORTED
    return f"{words.number(trial.prompt_tokens)} / {words.number(trial.completion_tokens)}"


def cost(trial: "Trial") -> str:
    """US dollars, or "not reported": a cost of 0 beside tokens is no price (TR10)."""
    return "" if not trial.cost_usd else f"${trial.cost_usd:.4f}"


def _took(trial: "Trial", seconds: float | None) -> str:
    if seconds is not None:
        return words.duration(seconds)
    if trial.started_at and not trial.ended_at and not trial.bucket:
        return f"since {trial.started_at:%H:%M:%S}"
    return words.NOT_RECORDED if trial.started_at else "not started"


def seconds_of(trial: "Trial") -> float | None:
    """How long it took: as the harness says it, else by when it started and ended."""
    total = _number(trial.timings.get("total_s")) if isinstance(trial.timings, dict) else None
    return words.between(trial.started_at, trial.ended_at) if total is None else total


def _number(value: Any) -> float | None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if ok else None


def _stretches(trial: "Trial", run: "Run", now: datetime) -> list[Stretch]:
    zero = run.claimed_at or run.created_at
    if trial.started_at is None:
        return []
    start = max(0.0, (trial.started_at - zero).total_seconds())
    found = []
    for kind, key in (("setup", "setup_s"), ("agent", "agent_s"), ("verify", "verifier_s")):
        seconds = _number(trial.timings.get(key)) if isinstance(trial.timings, dict) else None
        if seconds is not None:
            found.append(Stretch(kind, start, seconds))
            start += seconds
    if not found and run.active and not trial.bucket:
        kind = {"verifier": "verify", "agent": "agent", "ended": "rest"}.get(trial.stage, "setup")
        found.append(Stretch(kind, start, max(0.0, ((trial.ended_at or now) - trial.started_at).total_seconds())))
    return found


def _aloud(stretches: list[Stretch]) -> str:
    names = {"setup": "setup", "agent": "agent", "verify": "verifier", "rest": "all its stages"}
    parts = [f"{names[part.kind]} {words.duration(part.seconds, exact=True)}" for part in stretches]
    return get_text_list(parts, "and") or "stages not recorded"
