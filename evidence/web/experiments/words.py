"""The words and shapes of experiments: outcomes, trust, rates. Nothing here is green or red but what was proved."""

from dataclasses import dataclass
from typing import Any

from django.utils.text import capfirst

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.experiments.unproved import unproved
from evidence.imports.description import BADGES
from evidence.imports.outcomes import Source
from evidence.models import Experiment, ExperimentResult, ExperimentState
from evidence.statistics.attempts import PerSolved, Tally
from evidence.statistics.rates import METHOD_WORDS, Interval, Rate, pass_rate
from runs.web.presenting.status_marks import Mark

NOT_ENDED = Mark("running", "Not ended")
OUTCOMES = {
    "reported_passed": Mark("hollow-passed", "Reported passed"),
    "reported_failed": Mark("hollow-failed", "Reported failed"),
    "observed_passed": Mark("hollow-passed", "Observed passed"),
    "observed_failed": Mark("hollow-failed", "Observed failed"),
    "errored": Mark("error", "Errored"),
    "not_reported": Mark("unseen", "Not reported"),
    "cancelled": Mark("cancelled", "Cancelled"),
}
SOURCES = {
    Source.ENVIRONMENT: "environment run",
    Source.SUITE: "hosted suite",
    Source.LIVE: "live",
    Source.IMPORTED: "imported",
}


def outcome_mark(outcome: str | None) -> Mark:
    return OUTCOMES.get(outcome or "", NOT_ENDED)


def state_mark(experiment: Experiment) -> Mark:
    """``Finalized with errors`` is no grade: some trial was not graded."""
    if experiment.state == ExperimentState.OPEN:
        return Mark("running", "Open")
    if experiment.result == ExperimentResult.FAILED:
        return Mark("attention", "Finalized with errors")
    return Mark("held", "Finalized")


def trust_words(experiment: Any) -> str:
    """``reported, imported``: stands wherever a number of it stands."""
    return f"{experiment.trust}, {SOURCES[Source(experiment.source)]}"


def trust_sentence(source: str, verifier_mode: str = "") -> str:
    """Who says so, and which proofs are missing; of an environment run, that none is."""
    missing = unproved(source, verifier_mode=verifier_mode)[1]
    return missing or "A worker of this site executed it, a separate verifier here graded it, and every proof holds."


def percent(value: float) -> str:
    """``66.7 %``, without a needless zero; what is not all or nothing is never rounded to it."""
    shown = f"{100 * value:.1f}"
    if shown in ("0.0", "-0.0") and value:
        return "under 0.1 %" if value > 0 else "over -0.1 %"
    if shown == "100.0" and value < 1:
        return "over 99.9 %"
    return f"{shown.removesuffix('.0').replace('-', '−')} %"


def points(value: float) -> str:
    """A difference of rates: ``+12.5 points``."""
    shown = f"{100 * value:+.1f}".removesuffix(".0").replace("-", "−")
    return "0 points" if shown in ("+0", "−0") and not value else f"{shown} points"


def between(interval: Interval | None) -> str:
    """``35.4 to 87.9 %``; empty without an interval."""
    if interval is None:
        return ""
    low, high = percent(interval.low), percent(interval.high)
    return f"{low.removesuffix(' %')} to {high}"


@dataclass(frozen=True, slots=True)
class RateWords:
    """A pass rate beside what it was made of. ``rate`` is empty when nothing was graded; ``how`` names the method."""

    rate: str
    interval: str
    graded: str
    how: str


def rate_words(found: Tally) -> RateWords:
    rate: Rate = pass_rate(found)
    graded = f"{rate.graded:,} of {rate.requested:,} graded"
    value = "" if rate.value is None else percent(rate.value)
    return RateWords(value, between(rate.interval), graded, METHOD_WORDS[rate.method])


def money(value: float | None) -> str:
    """US dollars as they were reported; small amounts keep what tells them apart."""
    if value is None:
        return words.NOT_REPORTED
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}" if value >= 0.0001 else f"${value:.2g}"


def per_solved(found: PerSolved, said: str) -> tuple[str, str]:
    """The amount for each solved case, already in words, and what it is made of; ``not reported`` is no 0."""
    if not found.reported:
        return words.NOT_REPORTED, ""
    beside = f"{found.reported:,} of {words.counted(found.requested, 'trial')} reported"
    if found.value is None:
        return "no case was solved", beside
    return said if found.complete else f"at least {said}", beside


def case_label(name: str) -> str:
    return visible(name) or "unnamed case"


def badge_words(badge: str) -> str:
    """What a badge of a trial says, for people; an unknown one is shown as it is."""
    return capfirst(BADGES.get(badge, visible(badge)))
