"""Experiments over HTTP: their statistics, and one compared with another."""

from typing import Any

import pytest

from evidence.models import Experiment
from tests.api.conftest import Callers
from tests.experiments import rows

_OUTCOMES = {"p": "reported_passed", "f": "reported_failed", "e": "errored"}


def experiment(name: str, cases: dict[str, str], **more: Any) -> Experiment:
    """``{"a": "pfe"}``: case a with a passed, a failed and an errored attempt, each of 100 tokens and 0.5 dollars."""
    row = rows.experiment(f"{name}-0123456789abcdef", **{"requested": sum(map(len, cases.values())), **more})
    used = {"checksum": "1", "input_tokens": 90, "output_tokens": 10, "cost_usd": 0.5}
    for case, letters in cases.items():
        for attempt, letter in enumerate(letters, 1):
            rows.trial(row, case, attempt, reported_outcome=_OUTCOMES[letter], **used)
    rows.finalize(row)
    return row


def test_statistics_stand_beside_what_was_graded_of_what_was_asked_for(call: Callers) -> None:
    row = experiment("one", {"a": "pp", "b": "pf", "c": "ff", "d": "e"}, requested=8)
    found = call("viewer")("GET", f"experiments/{row.key}/statistics")
    rate = found["pass_rate"]
    assert (rate["value"], rate["method"], rate["graded"], rate["requested"]) == (0.5, "clustered", 6, 8)
    assert (rate["graded_cases"], rate["cases"], found["trust"]) == (3, 4, "reported")
    assert rate["interval"]["low"] <= 0.5 <= rate["interval"]["high"] and rate["interval"]["level"] == 0.95
    assert found["cases"] == {"always": ["a"], "flaky": ["b"], "never": ["c"], "ungraded": ["d"]}
    assert [of["any_of_k"] for of in found["of_attempts"]] == [0.5, pytest.approx(2 / 3)]
    cost, used = found["cost_per_solved_case"], found["tokens_per_solved_case"]
    assert (cost["value"], cost["reported"], cost["requested"], cost["complete"]) == (3.5 / 2, 7, 8, False)
    assert used["value"] == 350


def test_two_experiments_that_differ_in_three_cases_are_compared(call: Callers) -> None:
    """The calculation by hand stands in tests/statistics/test_comparing.py."""
    names = "abcdefghij"
    left = experiment("left", dict(zip(names, "pppppfffff", strict=True)))
    right = experiment("right", dict(zip(names, "ppppppppff", strict=True)))
    found = call("viewer")("GET", f"experiments/{left.key}/compared/{right.key}")
    assert (found["better"], found["worse"]) == (["f", "g", "h"], [])
    assert (found["difference"], found["p_value"], found["test"], found["differs"]) == (0.3, 0.25, "mcnemar", [])
    assert round(found["interval"]["low"], 5) == -0.05295
    other = experiment("other", {"a": "p"}, pass_threshold=0.5)
    found = call("viewer")("GET", f"experiments/{left.key}/compared/{other.key}")
    assert (found["p_value"], found["interval"]) == (None, None)
    assert found["differs"] == [{"what": "pass threshold", "left": "1", "right": "0.5"}]


def test_an_experiment_that_is_not_there_is_refused(call: Callers) -> None:
    row, ask = experiment("one", {"a": "p"}), call("viewer")
    for path in ("nothing/statistics", f"{row.key}/compared/nothing", f"nothing/compared/{row.key}"):
        assert ask("GET", f"experiments/{path}", status=404)["code"] == "api.not_found"
    assert call("viewer", "publish")("GET", f"experiments/{row.key}/statistics", status=403)["code"] == "api.scope"
