"""Counts that add up, and the one verdict of a suite (design 5).

The verdict is computed here and written once by the database; a later, successful cleanup does not change it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.trial.classify import Classification
from runs.outcomes.buckets import Bucket, Verdict, coverage
from runs.outcomes.codes import FailureClass

# Classes that say that our own side broke: such a suite is an error. With the others it is merely incomplete.
OUR_SIDE = frozenset(
    {
        FailureClass.INTEGRITY,
        FailureClass.INVALID_EVALUATION,
        FailureClass.WORKER_RUNTIME,
        FailureClass.HARNESS,
    }
)


@dataclass(frozen=True, slots=True)
class Counts:
    """`evaluated = passed + failed`, `requested = evaluated + error + cancelled`."""

    requested: int
    evaluated: int
    passed: int
    failed: int
    error: int
    cancelled: int

    @property
    def pass_rate(self) -> float | None:
        """Passed of evaluated, or None when nothing was evaluated."""
        return self.passed / self.evaluated if self.evaluated else None

    @property
    def sentence(self) -> str:
        return coverage(passed=self.passed, evaluated=self.evaluated, requested=self.requested)


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    """The verdict with what it rests on. `floor_met` is None when the floor was not evaluated."""

    verdict: Verdict
    counts: Counts
    floor: float
    floor_met: bool | None
    sentence: str


def count(results: Sequence[Classification]) -> Counts:
    by_bucket = {bucket: sum(result.bucket is bucket for result in results) for bucket in Bucket}
    return Counts(
        requested=len(results),
        evaluated=by_bucket[Bucket.PASSED] + by_bucket[Bucket.FAILED],
        passed=by_bucket[Bucket.PASSED],
        failed=by_bucket[Bucket.FAILED],
        error=by_bucket[Bucket.ERROR],
        cancelled=by_bucket[Bucket.CANCELLED],
    )


def suite_verdict(
    results: Sequence[Classification],
    *,
    floor: float,
    cleanup_clean: bool,
    run_failed: bool = False,
    integrity_held: bool = True,
) -> SuiteVerdict:
    """The one verdict over every requested trial's classification.

    `floor` is the profile's pass rate, 0 to 1; a floor of 0 is not met either when nothing passed. `run_failed` says
    that the run as a whole could not be carried out (its preflight, gateway or probe failed, or its worker was lost);
    `integrity_held` that every check of the run held and nothing is quarantined.
    """
    counts = count(results)
    complete = counts.requested > 0 and counts.evaluated == counts.requested
    floor_met = counts.passed > 0 and counts.passed / counts.requested >= floor if complete else None
    verdict, sentence = _decide(results, counts, floor, floor_met, cleanup_clean, run_failed, integrity_held)
    return SuiteVerdict(verdict, counts, floor, floor_met, sentence)


def _decide(
    results: Sequence[Classification],
    counts: Counts,
    floor: float,
    floor_met: bool | None,
    cleanup_clean: bool,
    run_failed: bool,
    integrity_held: bool,
) -> tuple[Verdict, str]:
    if counts.cancelled:
        return Verdict.CANCELLED, "The run was cancelled before every trial was graded."
    if not integrity_held:
        return Verdict.ERROR, "An integrity check of the run failed, so its results cannot be used."
    if floor_met is None:
        return _not_evaluated(results, counts, run_failed)
    if not floor_met:
        return Verdict.FAILED, f"Every trial was graded, and too few passed: {_passed(counts, floor)}."
    if run_failed:
        return Verdict.ERROR, "Every trial was graded, but the run itself did not end well."
    if not cleanup_clean:
        return (
            Verdict.ERROR,
            "Every trial was graded, but not everything that the run owned could be removed.",
        )
    sentence = f"Every trial was graded, enough passed ({_passed(counts, floor)}), and everything was cleaned up."
    return Verdict.PASSED, sentence


def _passed(counts: Counts, floor: float) -> str:
    """How many passed, of how many, and the share that was asked for; one is always needed."""
    needed = f"{100 * floor:g} %" if floor > 0 else "one"
    return f"{counts.passed} of {counts.requested}, needed: {needed}"


def _not_evaluated(results: Sequence[Classification], counts: Counts, run_failed: bool) -> tuple[Verdict, str]:
    missing = counts.requested - counts.evaluated
    if run_failed or not results or any(result.klass in OUR_SIDE for result in results):
        return (
            Verdict.ERROR,
            f"{missing} of {counts.requested} trials could not be evaluated: see their errors.",
        )
    return (
        Verdict.INCOMPLETE,
        f"{missing} of {counts.requested} trials were not evaluated, so no rate is claimed.",
    )
