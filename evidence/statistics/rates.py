"""How often a candidate passes: the pass rate with its 95 % interval, pass@k and pass^k."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb, fsum, sqrt
from statistics import NormalDist

from evidence.statistics.attempts import Tally

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval of 95 %."""

    low: float
    high: float


class Method(StrEnum):
    """How an interval was made, for whoever shows it."""

    WILSON = "wilson"
    CLUSTERED = "clustered"
    WILSON_OF_CASES = "wilson_of_cases"
    NEWCOMBE = "newcombe"
    NONE = "none"


METHOD_WORDS = {
    Method.WILSON: "Wilson interval over the graded cases",
    Method.CLUSTERED: "mean over cases with Student's t interval, each case one cluster of its attempts",
    Method.WILSON_OF_CASES: "Wilson interval that counts each case once, since all cases have the same rate",
    Method.NEWCOMBE: "Newcombe's interval for paired proportions",
    Method.NONE: "no interval: too few graded cases",
}


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate beside what it was made of; ``value`` is None when nothing was graded, and never 0 for that."""

    value: float | None
    interval: Interval | None
    method: Method
    graded: int
    requested: int
    graded_cases: int
    cases: int


def wilson(rate: float, n: int) -> Interval:
    """The score interval for ``rate`` of ``n`` independent trials.

    Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927) 209-212; recommended
    by Newcombe, Two-sided confidence intervals for the single proportion, Statist. Med. 17 (1998) 857-872, method 3.
    """
    if n < 1 or not 0 <= rate <= 1:
        raise ValueError(f"no rate of trials: {rate} of {n}")
    square = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2
    centre = (rate + square / (2 * n)) / (1 + square / n)
    half = sqrt(square * (rate * (1 - rate) / n + square / (4 * n * n))) / (1 + square / n)
    # At the ends the exact bound is the end itself; rounding must not move the rate out of its own interval.
    low = 0.0 if rate == 0 else min(rate, max(0.0, centre - half))
    high = 1.0 if rate == 1 else max(rate, min(1.0, centre + half))
    return Interval(low, high)


def t_interval(values: Sequence[float], low: float, high: float) -> Interval | None:
    """Student's interval for the mean of ``values``, one a cluster, within ``low`` and ``high``.

    None without spread or of fewer than two clusters. Several attempts at a case are no independent trials, so the
    case is the cluster: Miller, Adding Error Bars to Evals (arXiv 2411.00640, 2024), section 2.2. With the same number
    of attempts for each case this is its clustered standard error times the correction G/(G-1) for few clusters, with
    t of G-1 degrees of freedom: Cameron and Miller, A Practitioner's Guide to Cluster-Robust Inference, J. Human
    Resources 50 (2015) 317-372, section VI.
    """
    if len(values) < 2 or min(values) == max(values):
        return None
    mean, error = fsum(values) / len(values), standard_error(values)
    half = student_t(len(values) - 1) * error
    return Interval(max(low, mean - half), min(high, mean + half))


def standard_error(values: Sequence[float]) -> float:
    """Of the mean of two or more values: the square root of s²/n with s² over n-1."""
    n = len(values)
    mean = fsum(values) / n
    return sqrt(fsum((value - mean) ** 2 for value in values) / (n * (n - 1)))


def student_t(degrees: int) -> float:
    """The quantile of Student's t that bounds a two-sided interval of 95 %."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def pass_rate(found: Tally) -> Rate:
    """The share of graded attempts that passed, as the mean over cases of each case's rate.

    One graded attempt a case: Wilson's interval. Several: clustered by case. When all cases have the same rate the
    clusters show no spread, which proves no certainty; the interval is then Wilson's with each case counted once, the
    bound that holds however much the attempts of one case agree (an effective sample size as in Korn and Graubard,
    Confidence intervals for proportions with small expected number of positive counts, Survey Methodology 24 (1998)
    193-201).
    """
    graded = found.graded_cases
    beside = (found.graded, found.requested, len(graded), len(found.cases))
    if not graded:
        return Rate(None, None, Method.NONE, *beside)
    rates = [float(case.passed / case.graded) for case in graded]
    mean = min(1.0, fsum(rates) / len(rates))
    if all(case.graded == 1 for case in graded):
        return Rate(mean, wilson(mean, len(graded)), Method.WILSON, *beside)
    interval = t_interval(rates, 0, 1)
    if interval is not None:
        return Rate(mean, interval, Method.CLUSTERED, *beside)
    return Rate(mean, wilson(mean, len(graded)), Method.WILSON_OF_CASES, *beside)


@dataclass(frozen=True, slots=True)
class OfAttempts:
    """pass@k and pass^k over the ``cases`` (of ``of_cases``) that have at least ``k`` graded attempts."""

    k: int
    any_of_k: float
    all_of_k: float
    cases: int
    of_cases: int


def passes_of_k(found: Tally) -> list[OfAttempts]:
    """For each k from 1 to the most attempts that were graded of one case; empty when nothing was graded.

    pass@k, the chance that one of k attempts passes, is unbiased as 1 - C(n-c, k)/C(n, k) of c passed among n graded
    attempts: Chen et al., Evaluating Large Language Models Trained on Code (arXiv 2107.03374, 2021), equation 1.
    pass^k, the chance that all of k pass, is C(c, k)/C(n, k): Yao et al., tau-bench (arXiv 2406.12045, 2024). Both are
    means over cases. Cases with fewer graded attempts are left out and counted, never filled up.
    """
    most = max((case.graded for case in found.cases.values()), default=0)
    said = []
    for k in range(1, most + 1):
        cases = [case for case in found.cases.values() if case.graded >= k]
        some = [1 - comb(case.graded - case.passed, k) / comb(case.graded, k) for case in cases]
        every = [comb(case.passed, k) / comb(case.graded, k) for case in cases]
        said.append(OfAttempts(k, fsum(some) / len(cases), fsum(every) / len(cases), len(cases), len(found.cases)))
    return said
