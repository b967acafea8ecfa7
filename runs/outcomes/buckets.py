"""The buckets of a trial and the verdicts of a run, for rows, classifier, pages and documents alike."""

from enum import StrEnum


class _Named(StrEnum):
    """Words of rows and documents, each with a label for people."""

    @property
    def label(self) -> str:
        return self.value.capitalize()

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Value and label of each, as a model's field takes them."""
        return [(each.value, each.label) for each in cls]


class Bucket(_Named):
    """What one trial amounts to: evaluated = passed + failed."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    CANCELLED = "cancelled"


class Verdict(_Named):
    """What a suite amounts to."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    ERROR = "error"
    CANCELLED = "cancelled"


# What was independently graded.
EVALUATED = (Bucket.PASSED, Bucket.FAILED)


def coverage(*, passed: int, evaluated: int, requested: int) -> str:
    """Both rates, never one without the other, with the words of a run's page."""
    return f"Passed: {passed} of {evaluated} · Graded: {evaluated} of {requested}"
