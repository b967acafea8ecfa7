"""A run as a row of a list. Pure over rows."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.text import capfirst

from benchsite.lib import words
from runs.models.states import Cleanup
from runs.web.presenting import counts as sums
from runs.web.presenting import status_marks
from runs.web.presenting.banner import counts_of

if TYPE_CHECKING:
    from runs.models import Run


@dataclass(frozen=True, slots=True)
class RunRow:
    """One line of a runs list. ``rate`` is empty when nothing was evaluated."""

    key: str
    short: str
    mark: status_marks.Mark
    shares: list[sums.Share]
    aloud: str
    rate: str
    evaluated: str
    profile: str
    model: str
    endpoint: str
    cleanup_icon: str
    cleanup: str
    who: str
    started: datetime
    took: str


def run_row(run: "Run") -> RunRow:
    counts = counts_of(run)
    rates = sums.rates(counts, None)
    icon, cleanup = _cleanup(run)
    return RunRow(
        key=run.key,
        short=run.key[:8],
        mark=status_marks.of_run(run),
        shares=sums.shares(counts),
        aloud=capfirst(sums.aloud(counts)),
        rate=rates.passed,
        evaluated=rates.evaluated,
        profile=run.profile.name,
        model=run.endpoint.model,
        endpoint=run.endpoint.name,
        cleanup_icon=icon,
        cleanup=cleanup,
        who=run.created_by_name or "unknown",
        started=run.created_at,
        took=_took(run),
    )


def _cleanup(run: "Run") -> tuple[str, str]:
    if run.cleanup == Cleanup.CLEAN:
        return "held", "clean"
    if run.cleanup == Cleanup.FAILED:
        return "attention", "failed"
    if run.cleanup == Cleanup.DECLARED:
        return "", "declared"
    return "", "pending"


def _took(run: "Run") -> str:
    if run.claimed_at is None:
        return "not started"
    if run.ended_at is None:
        return f"since {run.claimed_at:%H:%M}"
    return words.duration(words.between(run.claimed_at, run.ended_at))
