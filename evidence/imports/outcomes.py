"""What a trial that ran elsewhere can amount to: words that are no bucket, and never become one."""

from enum import StrEnum


class ReportedOutcome(StrEnum):
    """What somebody else's Harbor said of a trial."""

    PASSED = "reported_passed"
    FAILED = "reported_failed"
    ERRORED = "errored"
    NOT_REPORTED = "not_reported"

    @property
    def graded(self) -> bool:
        return self in (ReportedOutcome.PASSED, ReportedOutcome.FAILED)


class ObservedOutcome(StrEnum):
    """What a worker here saw of a trial whose agent and image are the suite's own."""

    PASSED = "observed_passed"
    FAILED = "observed_failed"
    ERRORED = "errored"
    CANCELLED = "cancelled"

    @property
    def graded(self) -> bool:
        return self in (ObservedOutcome.PASSED, ObservedOutcome.FAILED)


class Trust(StrEnum):
    """Who executed and who graded. It is a property of that alone, and never of a number."""

    PROVED = "proved"
    OBSERVED = "observed"
    REPORTED = "reported"


class Source(StrEnum):
    """Where an experiment comes from."""

    ENVIRONMENT = "environment"
    SUITE = "suite"
    LIVE = "live"
    IMPORTED = "imported"


TRUST_OF_SOURCE = {
    Source.ENVIRONMENT: Trust.PROVED,
    Source.SUITE: Trust.OBSERVED,
    Source.LIVE: Trust.REPORTED,
    Source.IMPORTED: Trust.REPORTED,
}
