"""Two experiments on the same cases: whether a test may compare them at all, and what it says."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil, fsum, gcd, lcm, log2, sqrt
from statistics import NormalDist
from typing import Any

from evidence.statistics.attempts import Tally
from evidence.statistics.rates import LEVEL, Interval, Method, standard_error, t_interval, wilson

POWER = 0.8
# The exact distribution is counted sum by sum for few cases, over all sums for more of them, and not beyond these.
_FEW_CASES = 16
_MOST_SUMS = 1_000_000
_MOST_STEPS = 50_000_000


@dataclass(frozen=True, slots=True)
class Setting:
    """What has to agree before a test compares two experiments.

    ``checksums`` holds the task checksum that each case ran with, empty where it is not known. ``overrides`` are the
    job's: time-out multipliers, resources.
    """

    trust: str
    checksums: Mapping[str, str]
    main_reward: str
    threshold: float
    overrides: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two experiments differ: ``what`` for people, and what each has."""

    what: str
    left: str
    right: str


def comparable(left: Setting, right: Setting) -> list[Difference]:
    """What forbids a test between the two; empty when they may be tested.

    Only cases that both ran have to agree, for the others are no part of a paired test. A checksum that is not known
    agrees with nothing, and experiments without a common case have nothing to compare.
    """
    found = []
    if left.trust != right.trust:
        found.append(Difference("trust", left.trust, right.trust))
    common = sorted(left.checksums.keys() & right.checksums.keys())
    if not common:
        found.append(Difference("cases", f"{len(left.checksums)}, none in common", str(len(right.checksums))))
    for case in common:
        old, new = left.checksums[case], right.checksums[case]
        if old != new or not old:
            found.append(Difference(f"checksum of case {case}", old or "not recorded", new or "not recorded"))
    if left.main_reward != right.main_reward:
        found.append(Difference("main reward", left.main_reward, right.main_reward))
    if left.threshold != right.threshold:
        found.append(Difference("pass threshold", f"{left.threshold:g}", f"{right.threshold:g}"))
    for name in sorted(left.overrides.keys() | right.overrides.keys()):
        one, other = left.overrides.get(name), right.overrides.get(name)
        if one != other or isinstance(one, bool) is not isinstance(other, bool):
            found.append(Difference(f"override {name}", _said(one), _said(other)))
    return found


def _said(value: Any) -> str:
    return "not set" if value is None else str(value)


class PairedTest(StrEnum):
    """Which test gave a p-value."""

    MCNEMAR = "mcnemar"
    SIGN_FLIP = "sign_flip"
    PAIRED_T = "paired_t"


TEST_WORDS = {
    PairedTest.MCNEMAR: "exact McNemar test over the cases",
    PairedTest.SIGN_FLIP: "exact sign-flip test over the cases, each case one cluster of its attempts",
    PairedTest.PAIRED_T: "paired t test over the cases, each case one cluster of its attempts",
}


@dataclass(frozen=True, slots=True)
class Paired:
    """The right experiment seen from the left one, over the cases that were graded in both.

    ``difference`` is right less left. ``p_value``, ``interval`` and ``detectable`` are None when ``differs`` names a
    reason, or nothing can be said. ``least_difference`` is the smallest difference that as many cases could ever show
    with one attempt each; None when no result could be significant.
    """

    better: list[str]
    worse: list[str]
    same: list[str]
    left_only: list[str]
    right_only: list[str]
    ungraded: list[str]
    differs: list[Difference]
    difference: float | None
    interval: Interval | None
    method: Method
    p_value: float | None
    test: PairedTest | None
    detectable: float | None
    least_difference: float | None

    @property
    def pairs(self) -> int:
        return len(self.better) + len(self.worse) + len(self.same)


def paired(left: Tally, right: Tally, differs: list[Difference]) -> Paired:
    """Compare case by case; ``differs`` is what :func:`comparable` said of the two.

    With one graded attempt on each side the test is McNemar's and the interval Newcombe's; with several, cases are
    clusters: an exact test of the signs of their differences, and Student's interval of their mean.
    """
    rates: dict[str, tuple[Fraction, Fraction]] = {}
    ungraded = []
    for case in sorted(left.cases.keys() & right.cases.keys()):
        old, new = left.cases[case].rate, right.cases[case].rate
        if old is None or new is None:
            ungraded.append(case)
        else:
            rates[case] = (old, new)
    changes = {case: new - old for case, (old, new) in rates.items()}
    n = len(changes)
    single = all(side.cases[case].graded == 1 for case in rates for side in (left, right))
    interval: Interval | None = None
    method, p_value, test, detectable = Method.NONE, None, None, None
    if n and not differs:
        values = [float(change) for change in changes.values()]
        better, worse = sum(value > 0 for value in values), sum(value < 0 for value in values)
        if single:
            both = sum(old == new == 1 for old, new in rates.values())
            interval, method = newcombe(both, worse, better, n - both - better - worse), Method.NEWCOMBE
            p_value, test = mcnemar(better, worse), PairedTest.MCNEMAR
        else:
            interval = t_interval(values, -1, 1)
            method = Method.NONE if interval is None else Method.CLUSTERED
            p_value, test = clustered_test(list(changes.values()))
        detectable = detectable_difference(values)
    return Paired(
        better=[case for case, change in changes.items() if change > 0],
        worse=[case for case, change in changes.items() if change < 0],
        same=[case for case, change in changes.items() if change == 0],
        left_only=sorted(left.cases.keys() - right.cases.keys()),
        right_only=sorted(right.cases.keys() - left.cases.keys()),
        ungraded=ungraded,
        differs=differs,
        difference=float(sum(changes.values()) / n) if n else None,
        interval=interval,
        method=method,
        p_value=p_value,
        test=test,
        detectable=detectable,
        least_difference=least_difference(n),
    )


def mcnemar(better: int, worse: int) -> float:
    """The two-sided exact p-value: of the cases that differ, as many are better as worse when nothing changed.

    McNemar, Psychometrika 12 (1947) 153-157; exact by the binomial distribution: Fagerland, Lydersen and Laake, The
    McNemar test for binary matched-pairs data, BMC Med. Res. Methodol. 13:91 (2013), "exact conditional test".
    """
    if not better + worse:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(better, better + worse, 0.5).pvalue)


def newcombe(both: int, left: int, right: int, neither: int) -> Interval:
    """The interval for (right - left)/n of cases that passed in both, in one of the two alone, in neither.

    Newcombe, Improved confidence intervals for the difference between binomial proportions based on paired data,
    Statist. Med. 17 (1998) 2635-2650, method 10: the two Wilson intervals, put together with a continuity-corrected
    correlation.
    """
    n = both + left + right + neither
    old, new = (both + left) / n, (both + right) / n
    of_old, of_new = wilson(old, n), wilson(new, n)
    margins = (both + left) * (right + neither) * (both + right) * (left + neither)
    product = both * neither - left * right
    phi = (max(product - n / 2, 0.0) if product > 0 else float(product)) / sqrt(margins) if margins else 0.0
    below, above = _square_and_add(new - of_new.low, of_old.high - old, phi), (of_new.high - new, old - of_old.low)
    change = (right - left) / n
    return Interval(max(-1.0, change - below), min(1.0, change + _square_and_add(*above, phi)))


def _square_and_add(one: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def clustered_test(changes: list[Fraction]) -> tuple[float, PairedTest]:
    """The two-sided p-value of the cases' differences, and the test that gave it.

    When nothing changed, each case's difference could as well have had the other sign; all 2^n ways are counted, by
    the distribution of their sum over the common denominator. Fisher, The Design of Experiments (1935), section 21;
    for clusters of unequal size Gail et al., On design considerations and randomization-based inference for community
    intervention trials, Statist. Med. 15 (1996) 1069-1092. With one attempt a case it is McNemar's exact test. What
    would take too long is so large that Student's paired test says the same.
    """
    unit = lcm(*(change.denominator for change in changes))
    steps = [abs(int(change * unit)) for change in changes if change]
    if not steps:
        return 1.0, PairedTest.SIGN_FLIP
    unit_of_steps = gcd(*steps)
    steps = [step // unit_of_steps for step in steps]
    observed = abs(int(sum(changes) * unit)) // unit_of_steps
    if len(steps) <= _FEW_CASES:
        return _flipped_one_by_one(steps, observed), PairedTest.SIGN_FLIP
    sums = 2 * sum(steps) + 1
    if sums > _MOST_SUMS or len(steps) * sums > _MOST_STEPS:
        return _paired_t([float(change) for change in changes]), PairedTest.PAIRED_T
    return _flipped_over_all_sums(steps, observed), PairedTest.SIGN_FLIP


def _flipped_one_by_one(steps: list[int], observed: int) -> float:
    ways = Counter({0: 1})
    for step in steps:
        up = Counter({total + step: count for total, count in ways.items()})
        ways = up + Counter({total - step: count for total, count in ways.items()})
    return float(sum(count for total, count in ways.items() if abs(total) >= observed) / 2 ** len(steps))


def _flipped_over_all_sums(steps: list[int], observed: int) -> float:
    import numpy

    middle = sum(steps)
    chances = numpy.zeros(2 * middle + 1)
    chances[middle] = 1.0
    for step in steps:
        moved = numpy.zeros_like(chances)
        moved[step:] += chances[:-step] / 2
        moved[:-step] += chances[step:] / 2
        chances = moved
    if not observed:
        return 1.0
    return min(1.0, fsum(chances[: middle - observed + 1]) + fsum(chances[middle + observed :]))


def _paired_t(values: list[float]) -> float:
    from scipy.special import stdtr

    mean, error = fsum(values) / len(values), standard_error(values)
    # Without spread it is a test of thousands of cases that all changed alike.
    return float(2 * stdtr(len(values) - 1, -abs(mean) / error)) if error else 0.0


def detectable_difference(values: list[float]) -> float | None:
    """The smallest true difference that a test at 5 % would find with a chance of 80 %, by the spread that was seen.

    (z(1-0.05/2) + z(0.8)) times the standard error of the paired differences: Miller (arXiv 2411.00640, 2024), section
    5. None when fewer than two cases or no spread were seen, or it would be more than any difference can be.
    """
    if len(values) < 2 or min(values) == max(values):
        return None
    normal = NormalDist()
    found = (normal.inv_cdf((1 + LEVEL) / 2) + normal.inv_cdf(POWER)) * standard_error(values)
    return found if found <= 1 else None


def least_difference(cases: int) -> float | None:
    """The smallest difference that ``cases`` of one attempt each could show at all, with p of at most 5 %.

    McNemar's exact p-value of m cases that all changed the same way is 2^(1-m), so m is the least number with that at
    most 0.05; nothing that fewer cases do is significant.
    """
    needed = ceil(1 - log2(1 - LEVEL))
    return needed / cases if cases >= needed else None
