"""The trial table: a run's trials as rows, their stages on one common clock, and the sums as its last row. Pure."""

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django.utils.text import get_text_list

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.visible_text import visible
from runs.models.states import Stage
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
    "answer_cut",
    "model_refused",
    "context_window_exceeded",
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
    names = {"setup": "setup", "agent": "agent", "verify": "verifier", "rest": "all its stages"}
    parts = [f"{names[part.kind]} {words.duration(part.seconds, exact=True)}" for part in stretches]
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
        aloud=get_text_list(parts, "and") or "stages not recorded",
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
    stored = stored_object(result).get("sentence")
    return visible(stored).removesuffix(_COUNTS_NEITHER) if isinstance(stored, str) else ""


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
    """The cost with where it comes from, empty when it is unknown."""
    if trial.cost_units is None:
        return ""
    return f"{words.money(trial.cost_units, trial.cost_currency)} {trial.cost_basis}"


def _took(trial: "Trial", seconds: float | None) -> str:
    if seconds is not None:
        return words.duration(seconds)
    if trial.started_at and not trial.ended_at and not trial.bucket:
        return f"since {trial.started_at:%H:%M:%S}"
    return words.NOT_RECORDED if trial.started_at else "not started"


def seconds_of(trial: "Trial") -> float | None:
    """How long it took: as the harness says it, else by when it started and ended."""
    total = timing(trial, "total_s")
    return words.between(trial.started_at, trial.ended_at) if total is None else total


def timing(trial: "Trial", key: str) -> float | None:
    """Seconds as the harness says them; None where it says no number."""
    value: Any = trial.timings.get(key) if isinstance(trial.timings, dict) else None
    ok = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if ok else None


def _stretches(trial: "Trial", run: "Run", now: datetime) -> list[Stretch]:
    zero = run.claimed_at or run.created_at
    if trial.started_at is None:
        return []
    start = max(0.0, (trial.started_at - zero).total_seconds())
    found = []
    for kind, key in (("setup", "setup_s"), ("agent", "agent_s"), ("verify", "verifier_s")):
        seconds = timing(trial, key)
        if seconds is not None:
            found.append(Stretch(kind, start, seconds))
            start += seconds
    if not found and run.active and not trial.bucket:
        kind = {"verifier": "verify", "agent": "agent", "ended": "rest"}.get(trial.stage, "setup")
        found.append(Stretch(kind, start, max(0.0, ((trial.ended_at or now) - trial.started_at).total_seconds())))
    return found


_AROUND = (Stage.PREFLIGHT, Stage.GATEWAY, Stage.PROBE, Stage.INGEST, Stage.CLEANUP)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over those trials that have a number; ``started`` trials could have one. None where none has."""

    started: int = 0
    steps: int | None = None
    steps_of: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_of: int = 0
    cost_units: int | None = None
    cost_of: int = 0
    cost_currency: str = ""
    currencies: int = 0
    estimated: int = 0


@dataclass(frozen=True, slots=True)
class TotalsRow:
    """The row. What is missing is empty; ``stretches`` are what lay around the trials, on the run's clock."""

    mark: status_marks.Mark
    sentence: str
    stretches: list[Stretch]
    steps: str
    tokens: str
    cost: str
    took: str
    aloud: str
    begun: bool
    trials_begun: bool


def totals_row(run: "Run", entered: list[tuple[str, datetime]], totals: Totals) -> TotalsRow:
    """``entered`` are the run's stages in order with when each began; a stage without a successor is still open."""
    spent = _spent(run, entered)
    return TotalsRow(
        mark=status_marks.of_run(run),
        sentence=_sentence(run, spent),
        stretches=[Stretch("collect", start, seconds) for _stage, start, seconds in spent],
        steps=_summed("" if totals.steps is None else f"{totals.steps:,}", totals.steps_of, totals.started),
        tokens=_summed(_tokens(totals), totals.tokens_of, totals.started),
        cost=_summed(_cost(totals), totals.cost_of, totals.started),
        took=took(run, "%H:%M:%S"),
        aloud=_aloud(spent),
        begun=run.claimed_at is not None,
        trials_begun=totals.started > 0,
    )


def _spent(run: "Run", entered: list[tuple[str, datetime]]) -> list[tuple[Stage, float, float]]:
    """(stage, start, seconds) of every stage around the trials that is over, from when the run was claimed."""
    found = []
    for (stage, began), (_next, over) in pairwise(entered):
        if stage in _AROUND and run.claimed_at is not None:
            start = max(0.0, (began - run.claimed_at).total_seconds())
            found.append((Stage(stage), start, max(0.0, (over - began).total_seconds())))
    return found


def _sentence(run: "Run", spent: list[tuple[Stage, float, float]]) -> str:
    if spent:
        return f"Overhead: {_aloud(spent)}."
    if run.claimed_at is None:
        return "The run never started." if run.terminal else "The run has not started."
    return "The overhead was not recorded." if run.terminal else "The run is being prepared."


def _aloud(spent: list[tuple[Stage, float, float]]) -> str:
    parts = [f"{words.lowered(stage.label)} {words.duration(seconds, exact=True)}" for stage, _, seconds in spent]
    return get_text_list(parts, "and") or "stages not recorded"


def _tokens(totals: Totals) -> str:
    if not totals.tokens_of:
        return ""
    both = (words.number(totals.prompt_tokens), "/", words.number(totals.completion_tokens))
    return "\N{NO-BREAK SPACE}".join(both)


def _cost(totals: Totals) -> str:
    """Empty when no trial's is known, and when they are in several currencies, whose sum would be none."""
    if totals.cost_units is None or totals.currencies != 1:
        return ""
    return words.money(totals.cost_units, totals.cost_currency) + (" estimated" if totals.estimated else "")


def _summed(value: str, known: int, of: int) -> str:
    """Empty for what no trial has; a lower bound where one of them has no number."""
    return value if not value or known == of else f"at least {value}"


def took(run: "Run", clock: str) -> str:
    """How long a run took; of one that goes on, since when by that clock."""
    if run.claimed_at is None:
        return "not started"
    seconds = words.between(run.claimed_at, run.ended_at)
    return f"since {run.claimed_at:{clock}}" if seconds is None else words.duration(seconds)
