"""The trials of one experiment as statistics take them, and what their cases amount to without any estimate."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trial that counts: superseded ones are left out by whoever asks.

    ``passed`` is None of a trial that was not graded, whatever the reason. ``cost_usd`` and ``tokens`` are None where
    they were not reported. Raises ValueError for numbers that no trial can have.
    """

    case: str
    passed: bool | None
    cost_usd: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("cost_usd", "tokens"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name}: {value!r} is no finite number from 0 on")


@dataclass(frozen=True, slots=True)
class CaseTally:
    """One case: how many of its attempts were graded, how many of these passed, and how many there are in all."""

    case: str
    passed: int
    graded: int
    attempts: int

    @property
    def rate(self) -> Fraction | None:
        """Passed of graded; None of a case without a grade."""
        return Fraction(self.passed, self.graded) if self.graded else None


@dataclass(frozen=True, slots=True)
class Tally:
    """All cases of an experiment. ``requested`` counts the trials that were asked for, also those that nobody saw."""

    cases: Mapping[str, CaseTally]
    requested: int
    attempts: Sequence[Attempt] = field(repr=False)

    @property
    def graded(self) -> int:
        return sum(case.graded for case in self.cases.values())

    @property
    def graded_cases(self) -> list[CaseTally]:
        return [case for case in self.cases.values() if case.graded]


def tally(attempts: Iterable[Attempt], *, requested: int | None = None, cases: Iterable[str] = ()) -> Tally:
    """Count attempts by case. ``requested`` is by default the number of attempts, and never less.

    ``cases`` are those of which no attempt may be known. Raises ValueError when fewer were requested than there are.
    """
    known = list(attempts)
    if requested is None:
        requested = len(known)
    if requested < len(known):
        raise ValueError(f"requested: {requested} is less than the {len(known)} trials that there are")
    found: dict[str, list[Attempt]] = {case: [] for case in cases}
    for attempt in known:
        found.setdefault(attempt.case, []).append(attempt)
    return Tally({case: _of_case(case, found[case]) for case in sorted(found)}, requested, known)


def _of_case(case: str, attempts: Sequence[Attempt]) -> CaseTally:
    grades = [attempt.passed for attempt in attempts if attempt.passed is not None]
    return CaseTally(case, sum(grades), len(grades), len(attempts))


@dataclass(frozen=True, slots=True)
class Solved:
    """Cases by what their graded attempts say; each case stands in exactly one of the four lists.

    ``flaky`` were graded both ways by this candidate, ``ungraded`` have no grade at all.
    """

    always: list[str]
    flaky: list[str]
    never: list[str]
    ungraded: list[str]


def solved(found: Tally) -> Solved:
    """Which cases were always solved, sometimes, never, or not graded."""
    said = Solved([], [], [], [])
    for case in found.cases.values():
        if not case.graded:
            said.ungraded.append(case.case)
        elif case.passed == case.graded:
            said.always.append(case.case)
        elif case.passed:
            said.flaky.append(case.case)
        else:
            said.never.append(case.case)
    return said


@dataclass(frozen=True, slots=True)
class PerSolved:
    """What a solved case cost: the sum over all attempts, also failed and ungraded ones, for each solved case.

    ``value`` is None when no case was solved or nothing was reported. It is a lower bound unless ``complete``: only
    ``reported`` of ``requested`` trials said what they used, and the others are no 0.
    """

    value: float | None
    total: float | None
    solved_cases: int
    reported: int
    requested: int

    @property
    def complete(self) -> bool:
        return self.reported == self.requested


def cost_per_solved(found: Tally) -> PerSolved:
    """In US dollars; a case is solved when one of its attempts passed."""
    return _per_solved(found, [attempt.cost_usd for attempt in found.attempts])


def tokens_per_solved(found: Tally) -> PerSolved:
    """In tokens as the attempts count them; a case is solved when one of its attempts passed."""
    return _per_solved(found, [attempt.tokens for attempt in found.attempts])


def _per_solved(found: Tally, used: Sequence[float | None]) -> PerSolved:
    reported = [amount for amount in used if amount is not None]
    cases = sum(case.passed > 0 for case in found.cases.values())
    total = sum(reported) if reported else None
    value = total / cases if total is not None and cases else None
    return PerSolved(value, total, cases, len(reported), found.requested)
