"""The last row of the trial table: what the run did around its trials, and what all of them came to."""

from runs.models import Run, StageMark
from tests.pages.conftest import Browser
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_run_page import many_trials, plain, text_of


def foot(browse: Browser, run: Run, query: str = "") -> str:
    html = text_of(browse("viewer"), run, query)
    return plain(html.split("<tfoot>")[1].split("</tfoot>")[0])


def test_it_says_how_long_each_stage_around_the_trials_took(site: Site, browse: Browser) -> None:
    text = foot(browse, make_run(site, "passed"))
    assert "preflight 2.0 s, networks and gateway 2.0 s, egress probe 2.0 s, ingest 1.5 s and cleanup 2.5 s." in text


def test_it_sums_what_every_trial_has(site: Site, browse: Browser) -> None:
    text = foot(browse, make_run(site, "error"))
    assert "58 steps" in text and "398,113 / 17,341 tokens" in text and "cost not reported" in text


def test_a_sum_over_less_than_every_trial_is_a_lower_bound(site: Site, browse: Browser) -> None:
    """The trial that met its deadline has steps and no tokens; the one that was stopped has neither."""
    assert "48 steps at least 83,740 / 4,632 tokens" in foot(browse, make_run(site, "incomplete"))
    assert "at least 9 steps at least 41,870 / 2,316 tokens" in foot(browse, make_run(site, "cancelled"))


def test_costs_are_summed_in_whole_numbers_and_say_when_some_are_estimated(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    count = run.trials.update(cost_units=10**11 + 1, cost_currency="USD", cost_basis="computed")
    assert f"{count / 10:.4f} USD" in foot(browse, run)
    first = run.trials.order_by("ordinal")[0]
    type(first).objects.filter(pk=first.pk).update(cost_basis="estimated")
    assert f"{count / 10:.4f} USD estimated" in foot(browse, run)
    assert "0.1000 USD estimated" in text_of(browse("viewer"), run)
    type(first).objects.filter(pk=first.pk).update(cost_units=None, cost_currency="", cost_basis="")
    assert f"at least {(count - 1) / 10:.4f} USD" in foot(browse, run)


def test_a_known_cost_of_nothing_is_0_and_costs_of_two_currencies_have_no_sum(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    run.trials.update(cost_units=0, cost_currency="USD", cost_basis="reported")
    assert "0.0000 USD" in foot(browse, run)
    run.trials.filter(ordinal=1).update(cost_units=1, cost_currency="EUR")
    assert "cost not reported" in foot(browse, run)
    assert "under 0.0001 EUR reported" in plain(text_of(browse("viewer"), run))


def test_what_no_trial_has_is_said_in_words(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    assert "no trial started" in foot(browse, make_run(site, "broken"))
    run.trials.update(steps=None, prompt_tokens=None, completion_tokens=None)
    assert "not recorded steps not reported tokens" in foot(browse, run)


def test_a_run_that_waits_claims_nothing(site: Site, browse: Browser) -> None:
    text = foot(browse, make_run(site, "queued"))
    assert "The run has not started." in text and "not started" in text and "steps" not in text


def test_while_it_runs_only_stages_that_are_over_have_a_length(site: Site, browse: Browser) -> None:
    text = foot(browse, make_run(site, "running"))
    assert "egress probe 2.0 s." in text and "ingest" not in text and "since" in text


def test_every_window_sums_the_totals_row(site: Site, browse: Browser) -> None:
    run = make_run(site, "cancelled")
    many_trials(run, 300)
    run.trials.update(started_at=run.claimed_at, steps=2)
    Run.objects.filter(pk=run.pk).update(count_requested=300, count_cancelled=299)
    first = run.stage_marks.get(trial=1)
    StageMark.objects.bulk_create(StageMark(run=run, stage="trial", trial=n, at=first.at) for n in range(2, 300))
    assert "600 steps" in foot(browse, run) and foot(browse, run) == foot(browse, run, "?from=251")
