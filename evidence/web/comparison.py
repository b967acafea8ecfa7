"""Comparison of two runs: trials are aligned by task and checksum, and only evaluated ones are compared. Pure.

Nothing is averaged over what was not graded, and a task whose checksum differs is another task.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

EVALUATED = ("passed", "failed")


class Change(StrEnum):
    """What became of one task, seen from the baseline."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    NOT_GRADED = "not_graded"
    NOT_COMPARABLE = "not_comparable"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trial as the comparison needs it. ``bucket`` is passed, failed, error, cancelled, or empty while open.

    ``steps`` and ``seconds`` are None when they were not recorded. ``badges`` are notes beside the result.
    """

    task: str
    checksum: str
    ordinal: int
    bucket: str
    code: str = ""
    steps: int | None = None
    seconds: float | None = None
    badges: tuple[str, ...] = ()

    @property
    def evaluated(self) -> bool:
        return self.bucket in EVALUATED


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in both runs; a side is None where the run has no such task."""

    task: str
    baseline: Attempt | None
    candidate: Attempt | None
    change: Change

    @property
    def same_version(self) -> bool:
        both = self.baseline is not None and self.candidate is not None
        return both and self.baseline.checksum == self.candidate.checksum  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All tasks of both runs, changed ones first, and how many there are of each kind."""

    pairs: list[Pair]

    @property
    def counts(self) -> dict[Change, int]:
        counted = Counter(pair.change for pair in self.pairs)
        return {change: counted[change] for change in Change}

    def chosen(self, show: str) -> list[Pair]:
        """``changed`` (the default), ``all``, or one kind of change."""
        if show == "all":
            return self.pairs
        if show in set(Change):
            return [pair for pair in self.pairs if pair.change == show]
        return [pair for pair in self.pairs if pair.change is not Change.SAME]

    def rate(self, side: str) -> tuple[int, int]:
        """(passed, compared) of ``baseline`` or ``candidate``, over the tasks that were graded in both."""
        both = [pair for pair in self.pairs if pair.same_version and _graded_in_both(pair)]
        passed = sum(getattr(pair, side).bucket == "passed" for pair in both)
        return passed, len(both)


def compare(baseline: Sequence[Attempt], candidate: Sequence[Attempt]) -> Comparison:
    """Align two runs. Several attempts at one task are paired in their order; what is left over stands alone."""
    before, after = _by_task(baseline), _by_task(candidate)
    pairs = []
    for task in dict.fromkeys([*before, *after]):
        left, right = before.get(task, []), after.get(task, [])
        for index in range(max(len(left), len(right))):
            old = left[index] if index < len(left) else None
            new = right[index] if index < len(right) else None
            pairs.append(Pair(task, old, new, _change(old, new)))
    order = list(Change)
    return Comparison(sorted(pairs, key=lambda pair: order.index(pair.change)))


def _by_task(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.task, []).append(attempt)
    return found


def _change(old: Attempt | None, new: Attempt | None) -> Change:
    if old is None or new is None or old.checksum != new.checksum:
        return Change.NOT_COMPARABLE
    if not old.evaluated or not new.evaluated:
        return Change.NOT_GRADED
    if old.bucket == new.bucket:
        return Change.SAME
    return Change.IMPROVED if new.bucket == "passed" else Change.REGRESSED


def _graded_in_both(pair: Pair) -> bool:
    return bool(pair.baseline and pair.candidate and pair.baseline.evaluated and pair.candidate.evaluated)
