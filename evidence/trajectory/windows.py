"""Windows of steps of a trajectory of any size, read by its index.

Lenient: every trouble is a problem of one step, or a reason why nothing can be shown; the raw file stays offered.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from evidence.trajectory import atif, conversation, native
from evidence.trajectory.index import (
    DIFFERS,
    FAILED,
    MAGIC,
    MATCHES,
    MAX_STEP_BYTES,
    RECORD,
    SCHEMA,
    TAIL,
    Summary,
    Totals,
    parsed,
    step_of,
)
from evidence.trajectory.json_offsets import BLOCK, Range, read_range
from evidence.trajectory.ledger_match import MatchSummary
from evidence.trajectory.steps import LedgerMatch, Step
from evidence.trajectory.text import shown

WINDOW = 50
MAX_FOUND = 200


class File(Protocol):
    """An open binary file, local or of a storage."""

    def read(self, size: int, /) -> bytes: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def tell(self) -> int: ...


class IndexUnreadable(ValueError):
    """The index is not one of ours, or it is cut: build it again from the trajectory."""


@dataclass(frozen=True, slots=True)
class Window:
    """Steps `first` to `last` of `total`; `reason` says why there are none."""

    steps: tuple[Step, ...]
    first: int
    last: int
    total: int
    reason: str | None = None


class Trajectory:
    """A trajectory and its index, both open. Every method reads a bounded number of bytes."""

    def __init__(self, source: File, index: File) -> None:
        self._source = source
        self._index = index
        # The summary at the end of an index. Raises IndexUnreadable.
        size = index.seek(0, 2)
        if size < TAIL.size:
            raise IndexUnreadable("too short")
        index.seek(size - TAIL.size)
        length, magic = TAIL.unpack(_read(index, TAIL.size))
        start = size - TAIL.size - length
        if magic != MAGIC or start < 0 or start % RECORD.size or length > BLOCK:
            raise IndexUnreadable("not an index")
        index.seek(start)
        document = json.loads(_read(index, length))
        if document.pop("schema", None) != SCHEMA or document["steps"] * RECORD.size != start:
            raise IndexUnreadable("another schema")
        totals, problems = Totals(**document.pop("totals")), Counter(document.pop("problems"))
        self.summary = Summary(**document, totals=totals, problems=problems)

    @property
    def reason(self) -> str | None:
        """Why no step can be shown, in words for people; None when there are steps."""
        if not self.summary.supported:
            return f"Version {self.summary.version or 'unknown'} of the trajectory cannot be shown here."
        if self.summary.size == 0:
            return "The trajectory file is empty."
        return None if self.summary.steps else "No steps recorded."

    @property
    def ledger(self) -> MatchSummary:
        return MatchSummary(self.summary.ledger_compared, self.summary.ledger_matched, self.summary.ledger_answers)

    def window(self, first: int = 1, count: int = WINDOW) -> Window:
        """At most WINDOW steps from number `first` on; a number outside is moved inside."""
        total = self.summary.steps
        if self.reason is not None:
            return Window((), 0, 0, total, self.reason)
        first = min(max(1, first), total)
        last = min(total, first + min(max(1, count), WINDOW) - 1)
        records = self._records(first, last)
        steps = tuple(self._step(first + place, *record) for place, record in enumerate(records))
        return Window(steps, first, last, total)

    def around(self, number: int) -> Window:
        """The window of a fixed grid that holds a step: the same address always shows the same steps."""
        return self.window((max(1, number) - 1) // WINDOW * WINDOW + 1)

    def flagged(self, flag: int = FAILED, *, after: int = 0) -> int | None:
        """The number of the first step after `after` that carries a flag of the index."""
        number = after + 1
        while number <= self.summary.steps:
            last = min(self.summary.steps, number + 4095)
            for place, (_, flags) in enumerate(self._records(number, last)):
                if flags & flag:
                    return number + place
            number = last + 1
        return None

    def find(self, text: str, *, after: int = 0) -> tuple[int, ...]:
        """Numbers of at most MAX_FOUND steps after `after` whose stored text holds `text`, upper or lower case."""
        needles = _needles(text)
        found: list[int] = []
        number = after + 1
        while needles and number <= self.summary.steps and len(found) < MAX_FOUND:
            last = min(self.summary.steps, number + 999)
            records = self._records(number, last)
            found += [number + place for place, (range_, _) in enumerate(records) if self._holds(range_, needles)]
            number = last + 1
        return tuple(found[:MAX_FOUND])

    def _records(self, first: int, last: int) -> list[tuple[Range, int]]:
        self._index.seek((first - 1) * RECORD.size)
        data = _read(self._index, (last - first + 1) * RECORD.size)
        return [(Range(start, end), flags) for start, end, flags in RECORD.iter_unpack(data)]

    def _step(self, number: int, place: Range, flags: int) -> Step:
        data = read_range(self._source, place, MAX_STEP_BYTES)
        if data is None:
            message = f"This step has {place.length:,} bytes and is not shown."
            step = Step(source="unknown", message=shown(message), problems=("step_too_large",))
        else:
            entries = parsed(b"[" + data + b"]")
            step = step_of(entries if isinstance(entries, list) else [entries], self._list_key)
        match = LedgerMatch.NOT_COMPARED
        if flags & (MATCHES | DIFFERS):
            match = LedgerMatch.MATCHES if flags & MATCHES else LedgerMatch.DIFFERS
        return replace(step, number=number, ledger=match)

    @property
    def _list_key(self) -> str:
        return {"atif": atif.LIST_KEY, "gateway": conversation.LIST_KEY}.get(self.summary.format, native.LIST_KEY)

    def _holds(self, place: Range, needles: Sequence[bytes]) -> bool:
        """Reads a step in blocks that overlap by the longest needle."""
        overlap = max(map(len, needles)) - 1
        tail = b""
        self._source.seek(place.start)
        left = place.length
        while left > 0 and (block := self._source.read(min(BLOCK, left))):
            left -= len(block)
            text = (tail + block).lower()
            if any(needle in text for needle in needles):
                return True
            tail = text[-overlap:] if overlap else b""
        return False


def missing_reason(*, agent_timed_out: bool, size: int | None) -> str:
    """Why there is no trajectory, whatever the agent's own metadata claims."""
    if size == 0:
        return "The trajectory file is empty, so no trajectory was saved; the logs are offered instead."
    if agent_timed_out:
        return "No trajectory was saved: the agent was killed at its time limit. The logs are offered instead."
    return "No trajectory was saved. The logs are offered instead."


def _needles(text: str) -> tuple[bytes, ...]:
    """The text as it stands in JSON, escaped or not, in lower case."""
    if not text.strip():
        return ()
    forms: set[str] = {json.dumps(text, ensure_ascii=ascii_only)[1:-1].lower() for ascii_only in (True, False)}
    return tuple(form.encode("utf-8", "surrogatepass") for form in forms)


def _read(file: File, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (block := file.read(size)):
        pieces.append(block)
        size -= len(block)
    return b"".join(pieces)
