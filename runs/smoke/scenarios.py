"""The runs that the smoke makes, and the result that each must have. Pure."""

from dataclasses import dataclass, field
from typing import Any

from runs.scripted.scripts import ALIAS_PREFIX, Mode


@dataclass(frozen=True, slots=True)
class ExpectedResult:
    """What must come of a run. ``classes`` are the failure classes of its trials, in order of the tasks."""

    verdict: str
    evaluated: int
    passed: int
    classes: tuple[str, ...] = ()
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of the smoke. ``tasks`` narrows it, None means all three."""

    name: str
    mode: Mode
    expected: ExpectedResult
    tasks: tuple[str, ...] | None = None
    max_trial_seconds: int | None = None
    cancel_during_agent: bool = False

    @property
    def alias(self) -> str:
        return ALIAS_PREFIX + self.mode.value

    @property
    def endpoint(self) -> str:
        """The name of its endpoint record."""
        return self.alias


SCENARIOS = (
    Scenario("positive", Mode.POSITIVE, ExpectedResult("passed", 3, 3)),
    Scenario("negative", Mode.NEGATIVE, ExpectedResult("failed", 3, 0)),
    # In its last task the forger also plants links, which are listed; what it left beside them is graded.
    Scenario("forge", Mode.FORGE, ExpectedResult("failed", 3, 0)),
    Scenario("unauthorized", Mode.UNAUTHORIZED, ExpectedResult("incomplete", 0, 0, ("authentication",) * 3)),
    Scenario("wrong-model", Mode.WRONG_MODEL, ExpectedResult("incomplete", 0, 0, ("routing",) * 3)),
    # The two above pass the readiness question and fail in their trials; these end before any trial.
    Scenario(
        "unauthorized-at-once", Mode.UNAUTHORIZED_AT_ONCE, ExpectedResult("incomplete", 0, 0, ("authentication",) * 3)
    ),
    Scenario("wrong-model-at-once", Mode.WRONG_MODEL_AT_ONCE, ExpectedResult("incomplete", 0, 0, ("routing",) * 3)),
    Scenario(
        "slow",
        Mode.SLOW,
        ExpectedResult("incomplete", 0, 0, ("incomplete",)),
        tasks=("ledger-totals",),
        max_trial_seconds=15,
    ),
    # What a model did is its own result, and what the endpoint did is not; one task each shows it.
    Scenario("reasoning-cut", Mode.REASONING_CUT, ExpectedResult("failed", 1, 0), tasks=("ledger-totals",)),
    Scenario("context-overflow", Mode.CONTEXT_OVERFLOW, ExpectedResult("passed", 1, 1), tasks=("ledger-totals",)),
    Scenario(
        "rate-limited",
        Mode.RATE_LIMITED,
        ExpectedResult("incomplete", 0, 0, ("serving_runtime",)),
        tasks=("ledger-totals",),
    ),
    Scenario("hang-cancelled", Mode.HANG, ExpectedResult("cancelled", 0, 0, cancelled=3), cancel_during_agent=True),
)


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What came of a scenario's run, as its row and its trials' rows say."""

    verdict: str | None
    requested: int
    evaluated: int
    passed: int
    failed: int
    error: int
    cancelled: int
    classes: tuple[str, ...]
    cleanup: str
    left: int
    seconds: float
    notes: tuple[str, ...] = field(default_factory=tuple)


def misses(expected: ExpectedResult, seen: ScenarioResult) -> list[str]:
    """Every way in which the outcome is not the expected one, in words; empty when it is."""
    wanted: dict[str, Any] = {
        "verdict": expected.verdict,
        "evaluated": expected.evaluated,
        "passed": expected.passed,
        "cancelled": expected.cancelled,
        "cleanup": "clean",
        "left": 0,
    }
    found = [
        f"{name} is {getattr(seen, name)}, expected {value}"
        for name, value in wanted.items()
        if getattr(seen, name) != value
    ]
    if expected.classes and seen.classes != expected.classes:
        found.append(f"classes are {', '.join(seen.classes) or 'none'}, expected {', '.join(expected.classes)}")
    if seen.requested != seen.evaluated + seen.error + seen.cancelled:
        found.append("the counts do not add up")
    return [*found, *seen.notes]
