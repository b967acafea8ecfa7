"""Attempts for tests, written as letters: ``p`` passed, ``f`` failed, ``-`` not graded."""

from evidence.statistics.attempts import Attempt, Tally, tally

_GRADES = {"p": True, "f": False, "-": None}


def tallied(cases: dict[str, str], *, requested: int | None = None) -> Tally:
    """``{"a": "pf-"}``: case a with three attempts."""
    attempts = [Attempt(case, _GRADES[letter]) for case, letters in cases.items() for letter in letters]
    return tally(attempts, requested=requested, cases=cases)


def one_each(letters: str) -> Tally:
    """Cases named 1, 2, …, with one attempt each."""
    return tallied({f"{number:03}": letter for number, letter in enumerate(letters, 1)})
