"""Up to eight experiments side by side: what differs, the test with its interval, or every reason why there is none."""

from typing import Any

import pytest

from evidence.models import Experiment
from evidence.statistics.comparing import mcnemar, newcombe
from tests.experiments import rows
from tests.pages import experiment_rows
from tests.pages.conftest import Browser
from tests.pages.experiments.test_pages import read, row_with, table_rows
from tests.pages.factories import Site
from tests.pages.runs.test_run_page import plain


def graded(name: str, grades: str, **fields: Any) -> Experiment:
    """An experiment with one attempt at each case: P passed, F failed, E errored."""
    one = rows.experiment(name, requested=len(grades), **fields)
    for n, letter in enumerate(grades):
        outcome = {"P": "reported_passed", "F": "reported_failed", "E": "errored"}[letter]
        rows.trial(one, f"case {n:02}", reported_outcome=outcome, checksum=f"sum {n}")
    return one


def compared(*experiments: Experiment) -> str:
    return "/experiments/compare/?" + "&".join(f"e={one.key}" for one in experiments)


def test_two_that_differ_in_three_cases_are_compared_as_by_hand(site: Site, browse: Browser) -> None:
    """Of 10 cases 5 passed in both, 1 in the first alone, 2 in the second alone, 2 in neither.

    Rates 6/10 and 7/10, so +10 points; McNemar's exact p of 1 and 2 is 1, all of Binomial(3, 1/2); the interval is
    that of Newcombe's method 10 for these counts.
    """
    html = read(browse("viewer"), compared(graded("old", "PPPPPPFFFF"), graded("new", "PPPPPFPPFF")))
    text = plain(html)
    interval = newcombe(5, 1, 2, 2)
    assert mcnemar(2, 1) == 1
    low, high = (f"{100 * end:+.1f}".replace("-", "−") for end in (interval.low, interval.high))
    assert "Difference +10 points" in text and "p = 1.000" in text and "2 better, 1 worse, 7 the same" in text
    assert f"95 % interval {low} to {high} points: Newcombe" in text
    assert (
        "McNemar" in text
        and "the smallest difference that could be significant with one attempt each is 60 points" in text
    )
    assert "Wilson interval over the graded cases" in text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pass_threshold": 0.5}, "Pass threshold baseline 1 this one 0.5"),
        ({"main_reward": "score"}, "Main reward baseline reward this one score"),
        ({"overrides": {"timeout_multiplier": 2.0}}, "Override timeout_multiplier baseline not set this one 2.0"),
    ],
)
def test_what_does_not_agree_is_named_and_there_is_no_test(
    site: Site, browse: Browser, fields: dict[str, Any], said: str
) -> None:
    html = read(browse("viewer"), compared(graded("old", "PPPP"), graded("new", "FFFF", **fields)))
    assert [row for row in table_rows(html) if said in row.strip()]
    assert "No test between the two." in plain(html) and "p = " not in plain(html) and "p under" not in plain(html)


def test_another_content_of_a_case_forbids_a_test_and_names_the_case(site: Site, browse: Browser) -> None:
    old, new = graded("old", "PP"), rows.experiment("new", requested=2)
    for n in range(2):
        rows.trial(new, f"case {n:02}", checksum="sum 0")
    text = plain(read(browse("viewer"), compared(old, new)))
    assert "Checksum of case case 01 baseline sum 1 this one sum 0" in text and "case 00 baseline" not in text
    assert "No test between the two." in text


def test_what_was_reported_is_never_tested_against_what_was_observed(site: Site, browse: Browser) -> None:
    hosted = rows.experiment("hosted", source="suite", trust="observed", requested=1)
    rows.trial(hosted, "case 00", reported_outcome=None, observed_outcome="observed_failed", checksum="sum 0")
    text = plain(read(browse("viewer"), compared(graded("mine", "P"), hosted)))
    assert "Trust baseline reported this one observed" in text and "No test between the two." in text


def test_experiments_of_two_suites_stand_side_by_side_without_a_test(site: Site, browse: Browser) -> None:
    other = graded("other", "PF", suite=rows.suite("suite-2"))
    text = plain(read(browse("viewer"), compared(graded("mine", "PF"), other)))
    assert "none in common" in text and "not run" in text


@pytest.mark.parametrize(
    ("show", "cases"),
    [("all", 8), ("differing", 4), ("regressed", 3), ("flaky", 4), ("ungraded", 2), ("nonsense", 8)],
)
def test_the_table_is_narrowed(site: Site, browse: Browser, show: str, cases: int) -> None:
    made = experiment_rows.made()
    html = read(browse("viewer"), f"{compared(made['alpha'], made['beta'], made['once'])}&show={show}")
    assert html.count('class="name" href="/cases/') == cases


def test_the_baseline_is_the_first_unless_another_one_is_named(site: Site, browse: Browser) -> None:
    old, new = graded("old", "PF"), graded("new", "FF")
    client = browse("viewer")
    first = read(client, compared(old, new))
    assert "new against the baseline" in plain(first) and "Difference −50 points" in plain(first)
    assert "worse than the baseline" in row_with(first, "case 00")
    second = read(client, f"{compared(old, new)}&baseline={new.key}")
    assert "old against the baseline" in plain(second) and "Difference +50 points" in plain(second)
    assert "better than the baseline" in row_with(second, "case 00")


def test_nothing_graded_is_no_difference(site: Site, browse: Browser) -> None:
    text = plain(read(browse("viewer"), compared(graded("old", "EE"), graded("new", "EE"))))
    assert "none can be told" in text and "no case was graded in both" in text and "p = " not in text


def test_one_or_nine_are_chosen_again(site: Site, browse: Browser) -> None:
    made = [graded(f"job {n}", "P") for n in range(9)]
    client = browse("viewer")
    one = read(client, compared(made[0]))
    assert "Tick at least one more" in one and one.count(" checked") == 1
    nine = read(client, compared(*made))
    assert "9 experiments were asked for, and at most 8 are compared at once." in nine
    assert client.get(compared(*made[:8])).status_code == 200
    assert client.get(f"{compared(made[0])}&e=unknown").status_code == 404
