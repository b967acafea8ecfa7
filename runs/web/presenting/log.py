"""The log panel of a run: the newest lines that are kept. Pure over rows."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from benchsite.lib import words
from benchsite.lib.visible_text import visible

if TYPE_CHECKING:
    from runs.models import LogLine, Run

SHOWN = 250


@dataclass(frozen=True, slots=True)
class LogRow:
    at: datetime
    source: str
    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class Log:
    """``gap`` says how many older lines are not here, whether dropped for good or only not shown."""

    rows: list[LogRow]
    dropped: int
    hidden: int
    kept: int

    @property
    def gap(self) -> str:
        parts = []
        if self.dropped:
            parts.append(f"{words.counted(self.dropped, 'older line')} dropped.")
        return " ".join(parts)


def log(run: "Run", newest_first: "list[LogLine]", *, everything: bool) -> Log:
    """The panel of ``run`` from its newest lines; all that are kept when ``everything``."""
    kept = run.log_next - run.log_dropped
    shown = newest_first if everything else newest_first[:SHOWN]
    rows = [LogRow(line.at, visible(line.source), visible(line.text), line.cut) for line in reversed(shown)]
    return Log(rows=rows, dropped=run.log_dropped, hidden=max(0, kept - len(rows)), kept=kept)
