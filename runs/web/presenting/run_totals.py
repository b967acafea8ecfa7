"""The last row of the trial table: the sums over a run's trials, and its time outside of them. Pure."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from django.utils.text import get_text_list

from benchsite.lib import words
from runs.models.states import Stage
from runs.web.presenting import status_marks
from runs.web.presenting.trials import Stretch

if TYPE_CHECKING:
    from runs.models import Run

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
    cost_usd: Decimal | None = None
    cost_of: int = 0


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
        cost=_summed(f"${totals.cost_usd:.4f}" if totals.cost_usd else "", totals.cost_of, totals.started),
        took=_took(run),
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


def _summed(value: str, known: int, of: int) -> str:
    """Empty for what no trial has; a lower bound where one of them has no number."""
    return value if not value or known == of else f"at least {value}"


def _took(run: "Run") -> str:
    if run.claimed_at is None:
        return "not started"
    seconds = words.between(run.claimed_at, run.ended_at)
    return f"since {run.claimed_at:%H:%M:%S}" if seconds is None else words.duration(seconds)
