"""A run's counts: the strip that adds them up, the rates and the pass criteria. Pure.

Rule (design 5 and 9): ``evaluated = passed + failed`` and
``requested = evaluated + error + cancelled + not ended``; no rate when nothing was evaluated.
"""

from dataclasses import dataclass

from django.utils.text import get_text_list

from benchsite.lib import words
from runs.models.states import Cleanup
from runs.web.presenting import cleanups


@dataclass(frozen=True, slots=True)
class Counts:
    """The six counts of a run. ``ended`` says whether nothing can change any more.

    ``unjudged`` trials have ended while the run has not: they are judged together at its end (design 3.10).
    """

    requested: int
    passed: int
    failed: int
    error: int
    cancelled: int
    ended: bool
    unjudged: int = 0

    @property
    def evaluated(self) -> int:
        return self.passed + self.failed

    @property
    def rest(self) -> int:
        """Trials without a bucket. Never negative; a negative one would be a contradiction in the data."""
        return self.requested - self.evaluated - self.error - self.cancelled

    @property
    def open(self) -> int:
        """Trials that have not ended."""
        return self.rest - self.unjudged


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of the strip: sign before it, shape, word, number, one-line meaning."""

    kind: str
    sign: str
    word: str
    n: int
    means: str
    graded: bool = False

    @property
    def icon(self) -> str:
        return self.kind.split()[0] if self.kind else ""

    @property
    def classes(self) -> str:
        """The CSS classes of the cell: its hue, whether it counts as graded, whether it is zero."""
        parts = [self.kind, "graded" if self.graded else "", "none" if not self.n else ""]
        parts.append("part" if self.graded and self.kind else "")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Share:
    """One stretch of the bar below the strip, in percent of its width."""

    kind: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Rates:
    """``passed`` of what was evaluated (empty when nothing was), ``evaluated`` of what was requested."""

    passed: str
    evaluated: str
    tense: str
    floor: str
    applied: str


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of a pass: ``icon`` held, attention, skipped or queued."""

    icon: str
    word: str
    found: str

    @property
    def tone(self) -> str:
        return "attention" if self.icon == "attention" else ""


def strip(counts: Counts) -> list[Cell]:
    """The cells in their fixed order, with the signs that make them a sum."""
    cells = [
        Cell("", "", "Requested", counts.requested, "trials in the confirmed spec"),
        Cell("", "=", "Graded", counts.evaluated, "the agent ran and a separate verifier graded", graded=True),
        Cell("passed", "(", "Passed", counts.passed, "reward 1", graded=True),
        Cell("failed", "+", "Failed", counts.failed, "reward 0", graded=True),
        Cell("error", ") +", "Error", counts.error, "not graded, the reason is named"),
        Cell("cancelled", "+", "Cancelled", counts.cancelled, "stopped before grading"),
    ]
    if not counts.ended or counts.rest:
        cells.append(Cell("queued rest", "+", "Ended", counts.unjudged, "classified when the run ends"))
        cells.append(Cell("queued rest", "+", "Pending", counts.open, "queued or running"))
    return cells


def shares(counts: Counts) -> list[Share]:
    """The bar's stretches; together they are exactly the whole width, and none when nothing was requested."""
    parts = [
        ("passed", counts.passed),
        ("failed", counts.failed),
        ("error", counts.error),
        ("cancelled", counts.cancelled),
        ("rest", max(counts.rest, 0)),
    ]
    total = sum(n for _, n in parts)
    stretches, before = [], 0
    for kind, n in parts:
        if n:
            stretches.append(Share(kind, f"{before / total:.4%}", f"{n / total:.4%}"))
        before += n
    return stretches


def aloud(counts: Counts) -> str:
    """The bar in words."""
    named = [("passed", counts.passed), ("failed", counts.failed), ("error", counts.error)]
    named += [("cancelled", counts.cancelled), ("ended, not classified yet", counts.unjudged)]
    named.append(("pending", max(counts.open, 0)))
    return get_text_list([f"{n} {word}" for word, n in named if n], "and") or "no trials"


def rates(counts: Counts, floor: float | None) -> Rates:
    """Both rates with their coverage; a pass rate is never taken over what was not graded."""
    passed = f"{counts.passed} of {counts.evaluated}" if counts.evaluated else ""
    return Rates(
        passed=passed,
        evaluated=f"{counts.evaluated} of {counts.requested}",
        tense="" if counts.ended else " so far",
        floor="" if floor is None else f"minimum pass rate {floor:.2f}",
        applied=_floor_words(counts, floor),
    )


def _floor_words(counts: Counts, floor: float | None) -> str:
    if floor is None:
        return ""
    if not counts.ended:
        return "applied at the end"
    if counts.evaluated < counts.requested or not counts.requested:
        missing = counts.requested - counts.evaluated
        return f"not applied: {words.counted(missing, 'trial')} not graded"
    return "reached" if counts.passed / counts.evaluated >= floor else "missed"


def gates(counts: Counts, floor: float | None, integrity: bool | None, cleanup: str, owned: str) -> list[Gate]:
    """The four conditions of a pass (design 5), each held, open, not applied or still to come.

    ``integrity`` None is unknown; ``cleanup`` is a run's (design 3); ``owned`` its numbers in words.
    """
    whole = counts.requested > 0 and counts.evaluated == counts.requested
    cleaned = cleanups.of(cleanup)
    numbers = "" if cleanup == Cleanup.DECLARED else owned  # whatever the last attempt counted, it was not the end
    return [
        Gate(_icon(whole, counts.ended), "All trials graded", f"{counts.evaluated} of {counts.requested}"),
        _floor_gate(counts, floor, whole),
        Gate(_icon(integrity, counts.ended), "Integrity", _integrity_words(integrity, counts.ended)),
        Gate(cleaned.gate, "Cleanup", numbers or cleaned.found),
    ]


def _floor_gate(counts: Counts, floor: float | None, whole: bool) -> Gate:
    if not counts.ended:
        return Gate("queued", "Pass rate", "at the end")
    if not whole or floor is None:
        return Gate("skipped", "Pass rate", "not applied")
    rate = counts.passed / counts.evaluated
    return Gate("held" if rate >= floor else "attention", "Pass rate", f"{rate:.2f}, minimum {floor:.2f}")


def _icon(held: bool | None, ended: bool) -> str:
    if not ended:
        return "queued"
    return {True: "held", False: "attention", None: "skipped"}[held]


def _integrity_words(held: bool | None, ended: bool) -> str:
    if not ended:
        return "so far"
    return {True: "all checks passed", False: "a check failed", None: "nothing was checked"}[held]
