"""Cases that were always, sometimes or never solved, and what a solved case cost."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.statistics.attempts import Attempt, cost_per_solved, solved, tally, tokens_per_solved
from tests.statistics.made import tallied


def test_cases_by_what_their_attempts_say() -> None:
    found = solved(tallied({"a": "pp", "b": "p-", "c": "pf", "d": "ff", "e": "f-", "f": "--", "g": ""}))
    assert (found.always, found.flaky, found.never, found.ungraded) == (["a", "b"], ["c"], ["d", "e"], ["f", "g"])


@given(st.dictionaries(st.text(max_size=3), st.text("pf-", max_size=4), max_size=9))
def test_each_case_stands_in_one_list(cases: dict[str, str]) -> None:
    found = solved(tallied(cases))
    assert sorted([*found.always, *found.flaky, *found.never, *found.ungraded]) == sorted(cases)


def test_failed_and_ungraded_attempts_cost_as_well() -> None:
    attempts = [Attempt("a", True, 0.5, 100), Attempt("a", False, 0.25, 50), Attempt("b", None, 0.25, 50)]
    found = cost_per_solved(tally(attempts))
    assert (found.value, found.total, found.solved_cases, found.complete) == (1.0, 1.0, 1, True)
    assert tokens_per_solved(tally(attempts)).value == 200


def test_what_was_not_reported_is_no_0_and_said() -> None:
    attempts = [Attempt("a", True, 0.5, 0), Attempt("b", True), Attempt("c", False)]
    found = cost_per_solved(tally(attempts, requested=5))
    assert (found.value, found.reported, found.requested, found.complete) == (0.25, 1, 5, False)
    assert tokens_per_solved(tally(attempts)).value == 0  # reported as none
    assert cost_per_solved(tally([Attempt("a", True)])).value is None
    assert cost_per_solved(tally([Attempt("a", True)])).total is None


def test_where_nothing_was_solved_there_is_no_price_of_it() -> None:
    found = cost_per_solved(tally([Attempt("a", False, 2.0)]))
    assert (found.value, found.total) == (None, 2.0)


def test_numbers_that_no_trial_can_have_are_refused() -> None:
    for cost in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="cost_usd"):
            Attempt("a", True, cost)
    with pytest.raises(ValueError, match="tokens"):
        Attempt("a", True, None, -1)
    with pytest.raises(ValueError, match="requested: 0 is less than the 1"):
        tally([Attempt("a", True)], requested=0)


def test_scipy_is_loaded_by_what_needs_it_alone() -> None:
    program = (
        "import sys; from evidence.statistics import attempts, comparing, rates;"
        "assert 'scipy' not in sys.modules and 'numpy' not in sys.modules and 'django' not in sys.modules;"
        "rates.pass_rate(attempts.tally([attempts.Attempt('a', True)])); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
