"""A run as a row of a list."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString
from django.utils.text import capfirst

from runs.web import charts
from runs.web.presenting import cleanups, status_marks
from runs.web.presenting import counts as sums
from runs.web.presenting.banner import counts_of
from runs.web.presenting.trials import took

if TYPE_CHECKING:
    from runs.models import Run


@dataclass(frozen=True, slots=True)
class RunRow:
    """One line of a runs list: what is not in the row itself. ``rate`` is empty when nothing was evaluated."""

    run: "Run"
    mark: status_marks.Mark
    strip: SafeString
    rate: str
    evaluated: str
    cleanup: cleanups.CleanupWords
    took: str


def run_row(run: "Run") -> RunRow:
    counts = counts_of(run)
    rates = sums.rates(counts, None)
    strip = charts.strip(sums.shares(counts), capfirst(sums.aloud(counts)))
    mark = status_marks.of_run(run)
    return RunRow(run, mark, strip, rates.passed, rates.evaluated, cleanups.of(run.cleanup), took(run, "%H:%M"))
