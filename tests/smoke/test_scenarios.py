"""The smoke notices when a run came out otherwise than it must. Pure."""

from dataclasses import replace

import pytest

from runs.smoke.scenarios import SCENARIOS, ExpectedResult, ScenarioResult, misses

POSITIVE = ScenarioResult("passed", 3, 3, 3, 0, 0, 0, (), "clean", 0, 20.0)
EXPECTED = ExpectedResult("passed", 3, 3)


def test_an_outcome_as_expected_misses_nothing():
    assert misses(EXPECTED, POSITIVE) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"verdict": "failed"}, "verdict"),
        ({"verdict": None}, "verdict"),
        ({"evaluated": 2, "error": 1}, "evaluated"),
        ({"passed": 2}, "passed"),
        ({"cancelled": 1}, "cancelled"),
        ({"cleanup": "failed"}, "cleanup"),
        ({"left": 1}, "left"),
        ({"error": 1}, "add up"),
        ({"notes": ("trial 1: its forgery was not recorded",)}, "forgery"),
    ],
)
def test_every_other_outcome_is_named(change, word):
    assert any(word in sentence for sentence in misses(EXPECTED, replace(POSITIVE, **change)))


def test_classes_are_compared_in_the_order_of_the_tasks():
    expected = ExpectedResult("incomplete", 0, 0, ("authentication", "routing"))
    seen = ScenarioResult("incomplete", 2, 0, 0, 0, 2, 0, ("routing", "authentication"), "clean", 0, 1.0)
    assert any("classes" in sentence for sentence in misses(expected, seen))


def test_the_smoke_covers_what_its_users_fear():
    names = {scenario.mode.value for scenario in SCENARIOS}
    late = {"positive", "negative", "forge", "unauthorized", "wrong-model", "slow", "hang"}
    at_once = {"unauthorized-at-once", "wrong-model-at-once"}
    assert names == late | at_once | {"reasoning-cut", "context-overflow", "rate-limited"}
    assert [scenario.name for scenario in SCENARIOS if scenario.expected.passed] == ["positive", "context-overflow"]
