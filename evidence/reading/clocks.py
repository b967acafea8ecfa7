"""Recorded times and intervals; a duration only between times of the same clock."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# The one form in which our own side writes a time. Nothing of ours was written before or after these years.
_RECORDED = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Interval:
    """A recorded stage. `seconds` is None when an end is missing, unreadable, of another clock, or earlier.

    `inverted` says that both ends stand on one clock and the end is earlier. `clock` is `utc`, `unknown zone`
    or `not recorded`.
    """

    started_at: str | None = None
    ended_at: str | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Interval":
        """The times of a record of ours, `started_at` and `ended_at`; what is no text counts as not recorded."""
        start, end = record.get("started_at"), record.get("ended_at")
        return cls(start if isinstance(start, str) else None, end if isinstance(end, str) else None)

    @property
    def _ends(self) -> tuple[datetime, datetime] | None:
        start, end = moment(self.started_at), moment(self.ended_at)
        if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None):
            return None
        return start, end

    @property
    def seconds(self) -> float | None:
        ends = self._ends
        return (ends[1] - ends[0]).total_seconds() if ends and ends[1] >= ends[0] else None

    @property
    def inverted(self) -> bool:
        ends = self._ends
        return ends is not None and ends[1] < ends[0]

    @property
    def clock(self) -> str:
        start = moment(self.started_at)
        if start is None:
            return "not recorded"
        return "unknown zone" if start.tzinfo is None else "utc"


def moment(text: object) -> datetime | None:
    """An ISO 8601 time, aware or naive as it was written; None when it is none."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def is_recorded(text: object) -> bool:
    """Whether this is a time as our own side writes it: UTC with microseconds and a Z, in this century."""
    return isinstance(text, str) and _RECORDED.fullmatch(text) is not None and moment(text) is not None


def is_before(earlier: object, later: object) -> bool | None:
    """Whether one time lies before another; None when they cannot be compared."""
    first, second = moment(earlier), moment(later)
    if first is None or second is None or (first.tzinfo is None) != (second.tzinfo is None):
        return None
    return first < second
