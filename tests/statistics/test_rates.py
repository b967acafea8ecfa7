"""Pass rates with their intervals, pass@k and pass^k: published numbers, brute force, exact coverage, properties."""

from fractions import Fraction
from itertools import combinations
from math import comb, isclose, sqrt
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.statistics.rates import LEVEL, METHOD_WORDS, Method, pass_rate, passes_of_k, t_interval, wilson
from tests.statistics.made import one_each, tallied

Z = 1.959963984540054
LETTERS = st.text("pf-", max_size=5)
CASES = st.dictionaries(st.sampled_from("abcdefgh"), LETTERS, max_size=8)


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0000, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_that_of_newcombes_table(passed: int, n: int, low: float, high: float) -> None:
    """Newcombe, Statist. Med. 17 (1998) 857-872, table I, method 3."""
    found = wilson(passed / n, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(st.integers(1, 400), st.data())
def test_wilsons_bounds_are_the_rates_that_a_score_test_just_does_not_refuse(n: int, data: st.DataObject) -> None:
    rate = data.draw(st.integers(0, n)) / n
    found = wilson(rate, n)
    assert 0 <= found.low <= rate <= found.high <= 1
    for bound in (found.low, found.high):
        if bound not in (0, 1):
            assert isclose((rate - bound) ** 2, Z * Z * bound * (1 - bound) / n, rel_tol=1e-6, abs_tol=1e-15)
    mirrored = wilson((n - round(rate * n)) / n, n)
    assert isclose(mirrored.low, 1 - found.high, abs_tol=1e-12)
    assert isclose(mirrored.high, 1 - found.low, abs_tol=1e-12)


def test_wilsons_interval_holds_the_true_rate_as_often_as_it_says() -> None:
    """Over all outcomes of 40 trials, weighed by their chance; the mean over true rates from 0.05 to 0.95."""
    intervals = [wilson(passed / 40, 40) for passed in range(41)]
    covered = []
    for true in (rate / 100 for rate in range(5, 96)):
        chances = [comb(40, passed) * true**passed * (1 - true) ** (40 - passed) for passed in range(41)]
        covered.append(sum(c for c, i in zip(chances, intervals, strict=True) if i.low <= true <= i.high))
    assert abs(mean(covered) - LEVEL) < 0.005
    assert min(covered) > 0.90


def test_what_is_no_rate_has_no_interval() -> None:
    for rate, n in ((0.5, 0), (-0.1, 3), (1.1, 3), (float("nan"), 3)):
        with pytest.raises(ValueError, match="no rate of trials"):
            wilson(rate, n)


def test_one_attempt_a_case_has_wilsons_interval_over_the_graded_cases() -> None:
    found = pass_rate(one_each("pppf--"))
    assert (found.value, found.method) == (0.75, Method.WILSON)
    assert found.interval == wilson(0.75, 4)
    assert (found.graded, found.requested, found.graded_cases, found.cases) == (4, 6, 4, 6)


def test_without_a_grade_there_is_no_rate_and_never_0() -> None:
    for found in (pass_rate(tallied({})), pass_rate(tallied({"a": "-", "b": ""}, requested=3))):
        assert (found.value, found.interval, found.method, found.graded) == (None, None, Method.NONE, 0)
    assert found.requested == 3


def test_several_attempts_are_one_cluster_each() -> None:
    """By hand: rates 1, 1/2, 0, 1/2; mean 1/2, s² = 1/6, standard error √(1/24), t of 3 degrees of freedom 3.18245."""
    found = pass_rate(tallied({"a": "pp", "b": "pf", "c": "ff", "d": "fp"}))
    assert (found.value, found.method) == (0.5, Method.CLUSTERED)
    assert found.interval is not None
    # 3.182446 * 0.204124 = 0.649614, which is cut at 0 and 1
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)
    wide = t_interval([1, 0.5, 0, 0.5], -9, 9)
    assert wide is not None
    assert isclose(wide.high - 0.5, 0.649614, abs_tol=1e-6)


@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.text("pf", min_size=k, max_size=k), min_size=2, max_size=9)))
def test_the_clustered_error_is_millers_double_sum_with_the_correction_for_few_clusters(cases: list[str]) -> None:
    """Miller (arXiv 2411.00640), section 2.2: all pairs of attempts within a case; times G/(G-1)."""
    scores = [[1.0 if letter == "p" else 0.0 for letter in case] for case in cases]
    everything = [score for case in scores for score in case]
    middle, clusters = mean(everything), len(cases)
    within = sum((one - middle) * (other - middle) for case in scores for one in case for other in case)
    error = sqrt(max(0.0, within)) / len(everything) * sqrt(clusters / (clusters - 1))
    found = t_interval([mean(case) for case in scores], -99, 99)
    if found is None:
        assert error < 1e-9
        return
    from scipy import stats

    assert isclose((found.high - found.low) / 2, stats.t.ppf(0.975, clusters - 1) * error, rel_tol=1e-9)
    assert isclose((found.high + found.low) / 2, middle, abs_tol=1e-12)


def test_the_t_interval_is_that_of_a_textbook() -> None:
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2: of 195 values, mean 9.261460, s 0.022789."""
    from evidence.statistics.rates import student_t

    half = student_t(194) * 0.022789 / sqrt(195)
    assert (round(9.261460 - half, 6), round(9.261460 + half, 6)) == (9.258241, 9.264679)


@pytest.mark.parametrize("letters", ["pp", "ff", "pf"])
def test_cases_that_are_all_alike_prove_no_certainty(letters: str) -> None:
    found = pass_rate(tallied(dict.fromkeys("abcde", letters)))
    assert found.method is Method.WILSON_OF_CASES
    assert found.value is not None
    assert found.interval == wilson(found.value, 5)


def test_each_case_weighs_the_same_however_many_attempts_were_graded() -> None:
    found = pass_rate(tallied({"a": "pppp", "b": "f", "c": "f---"}))
    assert found.value == pytest.approx(1 / 3)
    assert (found.graded, found.requested) == (6, 9)


@given(CASES)
def test_a_rate_lies_in_its_interval_and_beside_what_was_asked_for(cases: dict[str, str]) -> None:
    found = pass_rate(tallied(cases))
    letters = "".join(cases.values())
    assert (found.graded, found.requested) == (len(letters.replace("-", "")), len(letters))
    assert (found.value is None) == (not found.graded) == (found.interval is None)
    if found.value is not None and found.interval is not None:
        assert 0 <= found.interval.low <= found.value <= found.interval.high <= 1
        assert found.interval.low < found.interval.high
    assert found.method in METHOD_WORDS


@given(CASES)
def test_pass_at_k_is_what_all_choices_of_k_attempts_say(cases: dict[str, str]) -> None:
    graded = {case: letters.replace("-", "") for case, letters in cases.items()}
    found = passes_of_k(tallied(cases))
    assert [of.k for of in found] == list(range(1, max(map(len, graded.values()), default=0) + 1))
    for of in found:
        some, every = [], []
        for letters in graded.values():
            chosen = list(combinations(letters, of.k))
            if chosen:
                some.append(Fraction(sum("p" in choice for choice in chosen), len(chosen)))
                every.append(Fraction(sum("f" not in choice for choice in chosen), len(chosen)))
        assert (of.cases, of.of_cases) == (len(some), len(cases))
        assert isclose(of.any_of_k, mean(some), abs_tol=1e-12)
        assert isclose(of.all_of_k, mean(every), abs_tol=1e-12)


def test_pass_at_k_is_unbiased() -> None:
    """Over all outcomes of five attempts that each pass with 0.3, its mean is 1 - 0.7³, and that of pass^3 is 0.3³."""
    some = every = 0.0
    for passed in range(6):
        chance = comb(5, passed) * 0.3**passed * 0.7 ** (5 - passed)
        of = passes_of_k(tallied({"a": "p" * passed + "f" * (5 - passed)}))[2]
        some, every = some + chance * of.any_of_k, every + chance * of.all_of_k
    assert isclose(some, 1 - 0.7**3, abs_tol=1e-12)
    assert isclose(every, 0.3**3, abs_tol=1e-12)
