"""Two experiments on the same cases: worked by hand, published numbers, enumeration of every outcome."""

from fractions import Fraction
from itertools import product
from math import comb, isclose
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.statistics import comparing
from evidence.statistics.comparing import (
    TEST_WORDS,
    Difference,
    PairedTest,
    Setting,
    clustered_test,
    comparable,
    detectable_difference,
    least_difference,
    mcnemar,
    newcombe,
    paired,
)
from evidence.statistics.rates import Method
from tests.statistics.made import one_each, tallied

SETTING = Setting("reported", {"a": "1", "b": "2"}, "reward", 1.0, {"timeout_multiplier": 1.0})
FRACTIONS = st.fractions(-1, 1, max_denominator=4)


def test_two_experiments_that_differ_in_three_cases_as_one_would_work_it_out_by_hand() -> None:
    """Ten cases, one attempt each. Before: cases 1 to 5 pass. After: 1 to 8 pass. So 6, 7 and 8 are better.

    Difference: 8/10 - 5/10 = 3/10.
    McNemar, exact: 3 cases changed, all the same way; with a fair coin 2 · (1/2)³ = 1/4.
    Wilson for 5 of 10, with z² = 3.84146: centre (0.5 + 0.192073)/1.384146 = 0.5, half width
      1.959964/1.384146 · √(0.25/10 + 3.84146/400) = 0.263407, so 0.236593 to 0.763407.
    Wilson for 8 of 10: centre (0.8 + 0.192073)/1.384146 = 0.716740, half width
      1.959964/1.384146 · √(0.16/10 + 3.84146/400) = 0.226578, so 0.490162 to 0.943318.
    Correlation of the two: both 5, neither 2, one alone 0 and 3. 5·2 - 0·3 = 10, less 10/2 = 5, over √(5·5·8·2) = 20:
      0.25.
    Lower margin: √(0.309838² - 2·0.25·0.309838·0.263407 + 0.263407²) = 0.352953, so 0.3 - 0.352953 = -0.052953.
    Upper margin: √(0.143318² - 2·0.25·0.143318·0.263407 + 0.263407²) = 0.266548, so 0.3 + 0.266548 = 0.566548.
    Spread: three differences of 1 and seven of 0, s² = (3·0.49 + 7·0.09)/9 = 0.233333, standard error √0.0233333 =
      0.152753; detectable with 80 %: (1.959964 + 0.841621) · 0.152753 = 0.427950.
    Least: 2^(1-m) ≤ 0.05 from m = 6 on, so 6 of 10 cases.
    """
    found = paired(one_each("pppppfffff"), one_each("ppppppppff"), [])
    assert (found.better, found.worse, len(found.same)) == (["006", "007", "008"], [], 7)
    assert (found.difference, found.p_value, found.test) == (0.3, 0.25, PairedTest.MCNEMAR)
    assert found.interval is not None and found.detectable is not None
    assert found.method is Method.NEWCOMBE
    assert (round(found.interval.low, 5), round(found.interval.high, 5)) == (-0.05295, 0.56655)
    assert round(found.detectable, 5) == 0.42795
    assert found.least_difference == 0.6


def test_mcnemars_p_value_is_that_of_a_published_example() -> None:
    """Children before and after a transplantation (1 and 7 of 21 changed): Fagerland et al. (2013), p = 0.070."""
    assert round(mcnemar(1, 7), 4) == 0.0703
    assert mcnemar(0, 0) == 1


def test_newcombes_interval_is_that_of_a_published_example() -> None:
    """The same children: Fagerland, Lydersen and Laake, Statist. Med. 33 (2014) 2850-2875: -0.507 to -0.026."""
    found = newcombe(both=1, left=7, right=1, neither=12)
    assert (round(found.low, 3), round(found.high, 3)) == (-0.507, -0.026)


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemars_p_value_is_the_sum_of_what_is_no_likelier(better: int, worse: int) -> None:
    n = better + worse
    chances = [comb(n, k) for k in range(n + 1)]
    expected = Fraction(sum(chance for chance in chances if chance <= chances[better]), 2**n)
    assert isclose(mcnemar(better, worse), expected, rel_tol=1e-9)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_newcombes_interval_holds_the_difference_and_turns_with_the_sides(a: int, b: int, c: int, d: int) -> None:
    if not a + b + c + d:
        return
    found, turned = newcombe(a, b, c, d), newcombe(a, c, b, d)
    assert -1 <= found.low <= (c - b) / (a + b + c + d) <= found.high <= 1
    assert isclose(found.low, -turned.high, abs_tol=1e-12)
    assert found.low < found.high


def test_newcombes_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    """Every outcome of 15 cases, weighed by its chance, for true chances of both, left, right, neither."""
    for truth in ((0.4, 0.1, 0.2, 0.3), (0.7, 0.05, 0.15, 0.1), (0.25, 0.25, 0.25, 0.25)):
        covered = 0.0
        for a, b, c in product(range(16), repeat=3):
            d = 15 - a - b - c
            if d < 0:
                continue
            ways = comb(15, a) * comb(15 - a, b) * comb(15 - a - b, c)
            interval = newcombe(a, b, c, d)
            if interval.low <= truth[2] - truth[1] <= interval.high:
                covered += ways * truth[0] ** a * truth[1] ** b * truth[2] ** c * truth[3] ** d
        assert 0.93 < covered < 0.99


def every_sign(changes: list[Fraction]) -> Fraction:
    observed = abs(sum(changes))
    signs = list(product((1, -1), repeat=len(changes)))
    as_far = sum(abs(sum(s * c for s, c in zip(chosen, changes, strict=True))) >= observed for chosen in signs)
    return Fraction(as_far, len(signs))


@settings(max_examples=50)
@given(st.lists(FRACTIONS, min_size=1, max_size=7))
def test_the_clustered_test_counts_every_way_to_turn_the_signs(changes: list[Fraction]) -> None:
    p_value, test = clustered_test(changes)
    assert test is PairedTest.SIGN_FLIP
    assert isclose(p_value, every_sign(changes), rel_tol=1e-12)


@settings(max_examples=50)
@given(st.lists(FRACTIONS, min_size=1, max_size=7))
def test_counting_over_all_sums_says_the_same(changes: list[Fraction]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparing, "_FEW_CASES", 0)
        p_value, test = clustered_test(changes)
    assert test is PairedTest.SIGN_FLIP
    assert isclose(p_value, every_sign(changes), rel_tol=1e-12)


@given(st.integers(0, 25), st.integers(0, 25))
def test_with_one_attempt_the_clustered_test_is_mcnemars(better: int, worse: int) -> None:
    changes = [Fraction(1)] * better + [Fraction(-1)] * worse + [Fraction(0)]
    assert isclose(clustered_test(changes)[0], mcnemar(better, worse), rel_tol=1e-9)


def test_what_is_too_large_to_count_is_students_paired_test() -> None:
    from scipy import stats

    changes = [Fraction(number % 7 - 2, 97 if number % 2 else 89) for number in range(3000)]
    p_value, test = clustered_test(changes)
    assert test is PairedTest.PAIRED_T
    assert isclose(p_value, stats.ttest_1samp([float(change) for change in changes], 0).pvalue, rel_tol=1e-9)
    alike, test = clustered_test([Fraction(1, 2)] * 6000)
    assert (alike, test) == (0.0, PairedTest.PAIRED_T)


def test_for_many_cases_the_exact_test_and_students_agree() -> None:
    from scipy import stats

    changes = [Fraction(number % 5 - 1, 4) for number in range(40)] + [Fraction(-1, 2)] * 20
    p_value, test = clustered_test(changes)
    assert test is PairedTest.SIGN_FLIP
    assert abs(p_value - stats.ttest_1samp([float(change) for change in changes], 0).pvalue) < 0.01


def test_several_attempts_are_compared_by_case() -> None:
    """By hand: differences 1/2, 1/2, 0, 1, -1/2; mean 3/10; of 2^4 signs of (1, 1, 2, 1)/2 eight reach 3/2 or more."""
    left = tallied({"a": "pf", "b": "ff", "c": "pp", "d": "ff", "e": "pp"})
    right = tallied({"a": "pp", "b": "fp", "c": "pp", "d": "pp", "e": "fp"})
    found = paired(left, right, [])
    assert (found.better, found.worse, found.same) == (["a", "b", "d"], ["e"], ["c"])
    assert found.difference == pytest.approx(0.3)
    signs = [abs(a + b + 2 * c + d) >= 3 for a, b, c, d in product((1, -1), repeat=4)]
    assert (found.p_value, found.test) == (sum(signs) / 16, PairedTest.SIGN_FLIP)
    assert found.method is Method.CLUSTERED
    assert found.interval is not None
    # s² = (2 · 0.04 + 0.09 + 0.49 + 0.64)/4 = 0.325, √(0.325/5) = 0.254951, t of 4 degrees 2.776445
    assert isclose(found.interval.low, 0.3 - 2.776445 * 0.254951, abs_tol=1e-5)
    assert found.interval.high == 1  # 1.007857, cut at what a difference can be


def test_what_differs_leaves_counts_and_no_test() -> None:
    differs = [Difference("trust", "reported", "proved")]
    found = paired(one_each("pf"), one_each("pp"), differs)
    assert (found.better, found.pairs, found.difference) == (["002"], 2, 0.5)
    assert (found.p_value, found.test, found.interval, found.detectable) == (None, None, None, None)
    assert found.differs == differs


def test_a_case_without_a_grade_on_a_side_is_counted_and_not_compared() -> None:
    found = paired(tallied({"a": "p", "b": "-", "c": "f"}), tallied({"a": "f", "b": "p", "d": "p"}), [])
    assert (found.worse, found.ungraded, found.left_only, found.right_only) == (["a"], ["b"], ["c"], ["d"])
    assert (found.pairs, found.difference, found.p_value) == (1, -1.0, 1.0)
    nothing = paired(tallied({"a": "-"}), tallied({"a": "p"}), [])
    assert (nothing.difference, nothing.interval, nothing.p_value, nothing.detectable) == (None, None, None, None)


@given(st.lists(st.tuples(st.text("pf-", max_size=3), st.text("pf-", max_size=3)), max_size=9))
def test_turned_around_a_comparison_says_the_same(cases: list[tuple[str, str]]) -> None:
    left = tallied({str(number): old for number, (old, _) in enumerate(cases)})
    right = tallied({str(number): new for number, (_, new) in enumerate(cases)})
    found, turned = paired(left, right, []), paired(right, left, [])
    assert (found.better, found.worse, found.same) == (turned.worse, turned.better, turned.same)
    assert found.pairs + len(found.ungraded) == len(cases)
    assert found.p_value == turned.p_value
    assert found.p_value is None or 0 < found.p_value <= 1
    if found.difference is not None:
        assert turned.difference == -found.difference
        assert found.interval is None or found.interval.low <= found.difference <= found.interval.high
    assert found.test is None or found.test in TEST_WORDS


def test_the_least_difference_is_the_first_that_mcnemar_calls_significant() -> None:
    for cases in range(1, 60):
        found = least_difference(cases)
        significant = [changed for changed in range(cases + 1) if mcnemar(changed, 0) <= 0.05]
        assert found == (significant[0] / cases if significant else None)


def test_a_detectable_difference_is_found_four_times_of_five() -> None:
    """Normal differences with the spread that was seen: the chance of a |z| beyond 1.96 at that true difference."""
    from statistics import NormalDist

    values = [1.0, 0.0, 0.0, -0.5, 0.5, 0.0, 1.0, -1.0, 0.0, 0.0] * 5
    found = detectable_difference(values)
    assert found is not None
    error = (sum((value - mean(values)) ** 2 for value in values) / 49 / 50) ** 0.5
    assert isclose(1 - NormalDist(found / error).cdf(1.959963984540054), 0.8, abs_tol=1e-9)
    assert detectable_difference([0.0, 0.0]) is None
    assert detectable_difference([1.0]) is None
    assert detectable_difference([1.0, -1.0]) is None  # it would be more than any difference can be


def test_two_experiments_of_one_setting_may_be_tested() -> None:
    assert comparable(SETTING, SETTING) == []


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Setting("proved", SETTING.checksums, "reward", 1.0, SETTING.overrides), ["trust"]),
        (Setting("reported", {"a": "1", "b": "3"}, "reward", 1.0, SETTING.overrides), ["checksum of case b"]),
        (Setting("reported", {"a": "1", "b": ""}, "reward", 1.0, SETTING.overrides), ["checksum of case b"]),
        (Setting("reported", {"c": "1"}, "reward", 1.0, SETTING.overrides), ["cases"]),
        (Setting("reported", SETTING.checksums, "speed", 1.0, SETTING.overrides), ["main reward"]),
        (Setting("reported", SETTING.checksums, "reward", 0.5, SETTING.overrides), ["pass threshold"]),
        (Setting("reported", SETTING.checksums, "reward", 1.0, {}), ["override timeout_multiplier"]),
        (
            Setting("reported", SETTING.checksums, "reward", 1.0, {"timeout_multiplier": True}),
            ["override timeout_multiplier"],
        ),
        (
            Setting("observed", {"a": "9"}, "other", 0.0, {"cpus": 2, "timeout_multiplier": 1}),
            ["trust", "checksum of case a", "main reward", "pass threshold", "override cpus"],
        ),
    ],
)
def test_what_differs_is_named_from_either_side(other: Setting, what: list[str]) -> None:
    assert [difference.what for difference in comparable(SETTING, other)] == what
    assert [difference.what for difference in comparable(other, SETTING)] == what


def test_cases_that_one_side_alone_ran_forbid_no_test() -> None:
    assert comparable(SETTING, Setting("reported", {"b": "2", "c": "3"}, "reward", 1, SETTING.overrides)) == []


def test_checksums_that_nobody_knows_agree_with_nothing() -> None:
    unknown = Setting("reported", {"a": ""}, "reward", 1.0, {})
    assert comparable(unknown, unknown) == [Difference("checksum of case a", "not recorded", "not recorded")]
