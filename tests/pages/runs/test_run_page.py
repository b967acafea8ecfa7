"""The run page says what happened, from the row that is the truth."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.models import AuditEntry, Run, Trial, Worker
from runs.services import lifecycle
from runs.services.runlog import Line, append_log
from tests.pages.conftest import Browser, signed_in
from tests.pages.evidence_files import keep
from tests.pages.factories import PLANS, Site, make_run


def text_of(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"/runs/{run.key}/{query}")
    assert response.status_code == 200
    return str(response.content.decode())


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("passed", "All three trials were graded and all passed."),
        ("failed", "All three trials were graded; two passed, and the profile requires all."),
        ("error", "One of three trials was not graded, so this run neither passed nor failed."),
        ("incomplete", "One of three trials was not graded"),
        ("cancelled", "operator-2 cancelled after 1 trial"),
        ("running", "The verdict follows when every trial has ended."),
        ("queued", "Waiting for worker-1. Nothing has been created yet."),
        ("broken", "No trial was graded."),
    ],
)
def test_each_ending_has_its_sentence(site: Site, browse: Browser, kind: str, words: str) -> None:
    assert words in plain(text_of(browse("viewer"), make_run(site, kind)))


@pytest.mark.parametrize("kind", PLANS)
def test_the_counts_on_the_page_add_up(site: Site, browse: Browser, kind: str) -> None:
    html = text_of(browse("viewer"), make_run(site, kind))
    numbers = dict(re.findall(r"</svg>(\w[\w ]*)</dt><dd class=\"n\">(\d+)</dd>", html))
    numbers |= dict(re.findall(r"<dt>(\w+)</dt><dd class=\"n\">(\d+)</dd>", html))
    n = {word: int(number) for word, number in numbers.items()}
    assert n["Graded"] == n["Passed"] + n["Failed"]
    assert n["Requested"] == n["Graded"] + n["Error"] + n["Cancelled"] + n.get("Ended", 0) + n.get("Pending", 0)


def test_an_error_is_never_called_a_failure(site: Site, browse: Browser) -> None:
    """A trial that was not graded is labelled Error only."""
    run = make_run(site, "error")
    row = text_of(browse("viewer"), run).split("</tr>")[3]
    assert "Error" in plain(row)
    assert "Failed" not in plain(row)
    assert "grading.reward_boolean" in row


def test_a_run_without_a_grade_shows_no_rate(site: Site, browse: Browser) -> None:
    text = plain(text_of(browse("viewer"), make_run(site, "broken")))
    assert "0 of 3 graded" in text
    assert "of 0" not in text and not re.search(r"\d passed", text)


def test_unknown_is_said_in_words(site: Site, browse: Browser) -> None:
    """A cost of 0 beside tokens was not reported."""
    text = plain(text_of(browse("viewer"), make_run(site, "incomplete")))
    assert "cost not reported" in text
    assert "$0" not in text


def test_resources_left_behind_are_named_with_a_retry(site: Site, browse: Browser) -> None:
    text = plain(text_of(browse("operator"), make_run(site, "error")))
    assert "10 recorded" in text
    assert "8 removed" in text
    assert "2 left on worker-1" in text
    assert "Two owned resources are still on worker-1." in text
    assert "Retry cleanup" in text


def test_a_clean_run_offers_no_retry(site: Site, browse: Browser) -> None:
    assert "Retry cleanup" not in text_of(browse("operator"), make_run(site, "passed"))


def test_cancel_says_what_it_stops_and_what_it_keeps(site: Site, browse: Browser) -> None:
    text = plain(text_of(browse("operator"), make_run(site, "running")))
    for words in (
        "the agent, trial 2",
        "the gateway",
        "the result of 1 trial and all evidence so far",
        "2 trials count as cancelled, not as failed",
        "Safe to press twice",
    ):
        assert words in text


def test_pressing_cancel_twice_asks_once(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    client.post(f"/runs/{run.key}/cancel/")
    asked = Run.objects.get().cancel_requested_at
    response = client.post(f"/runs/{run.key}/cancel/", follow=True)
    assert "already being cancelled" in plain(response.content.decode())
    assert Run.objects.get().cancel_requested_at == asked
    assert AuditEntry.objects.filter(kind="cancel").count() == 1


def test_a_second_operator_sees_who_cancelled(site: Site, browse: Browser) -> None:
    run = make_run(site, "running")
    browse("operator").post(f"/runs/{run.key}/cancel/")
    response = browse("other_operator").post(f"/runs/{run.key}/cancel/", follow=True)
    text = plain(response.content.decode())
    assert "The run is already being cancelled" in text
    assert "operator-1 requested it at" in text
    assert "Cancelling" in text


def test_cancelling_an_ended_run_is_harmless(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    response = browse("operator").post(f"/runs/{run.key}/cancel/", follow=True)
    assert "The run had already ended" in plain(response.content.decode())
    assert Run.objects.get().verdict == "passed"


def test_cancelling_a_queued_run_ends_it_at_once(site: Site, browse: Browser) -> None:
    run = make_run(site, "queued")
    response = browse("operator").post(f"/runs/{run.key}/cancel/", follow=True)
    text = plain(response.content.decode())
    assert "nothing had been created" in text
    assert "Cleanup : nothing was created" in text and "Integrity : nothing was checked" in text
    assert Run.objects.get().verdict == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_a_retry_asks_the_worker_and_keeps_the_verdict(site: Site, browse: Browser, jobs: list[Any]) -> None:
    run = make_run(site, "error")
    response = browse("operator").post(f"/runs/{run.key}/cleanup/", follow=True)
    assert "Cleanup requested from worker-1" in plain(response.content.decode())
    assert [job[0] for job in jobs] == ["cleanup"]
    assert Run.objects.get().verdict == "error"


def test_a_retry_on_a_clean_run_asks_for_nothing(site: Site, browse: Browser, jobs: list[Any]) -> None:
    run = make_run(site, "passed")
    response = browse("operator").post(f"/runs/{run.key}/cleanup/", follow=True)
    assert "Already clean" in plain(response.content.decode())
    assert jobs == []


def test_a_retry_while_it_runs_is_refused_in_words(site: Site, browse: Browser, jobs: list[Any]) -> None:
    run = make_run(site, "running")
    response = browse("operator").post(f"/runs/{run.key}/cleanup/", follow=True)
    assert "has not ended" in plain(response.content.decode())
    assert jobs == []


def test_a_trial_that_ended_is_counted_before_it_is_judged(site: Site, browse: Browser) -> None:
    """Design 3.10: all trials are judged together at the end; until then the strip says how many have ended."""
    run = make_run(site, "running")
    lifecycle.trial_over(run.pk, 2)
    text = browse("operator").get(f"/runs/{run.key}/").content.decode()
    cells = dict(re.findall(r'<dt>(?:<svg.*?</svg>)?([^<]+)</dt><dd class="n">(\d+)</dd>', text))
    assert (cells["Requested"], cells["Passed"], cells["Ended"], cells["Pending"]) == ("3", "1", "1", "1")
    assert "classified with the other trials when the run ends" in text
    assert "2 of 3" in browse("operator").get("/").content.decode()


def test_a_silent_worker_is_said_on_the_page(site: Site, browse: Browser) -> None:
    run = make_run(site, "running")
    client = browse("viewer")
    assert "has been silent" not in text_of(client, run)
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    assert "No heartbeat from worker-1 since" in plain(text_of(client, run))


# --- the log ---


def test_dropped_lines_are_counted_where_they_are_missing(site: Site, browse: Browser) -> None:
    text = plain(text_of(browse("operator"), make_run(site, "error")))
    assert "312 older lines dropped." in text


def test_a_long_log_shows_its_end_and_says_what_is_not_shown(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    append_log(run.pk, [Line(source="engine", text=f"line {number}") for number in range(600)])
    text = plain(text_of(client, run))
    assert "line 599" in text
    assert "line 100 " not in text
    assert "359 earlier lines are kept but not shown." in text
    assert "line 100 " in plain(text_of(client, run, "?log=all"))


def test_a_cut_line_says_so(site: Site, browse: Browser) -> None:
    run = make_run(site, "running")
    append_log(run.pk, [Line(source="harness", text="x" * 1_000_000)])
    html = text_of(browse("operator"), run)
    assert "[cut at 4,096 characters]" in html
    assert len(html) < 100_000


# --- many trials ---


def many_trials(run: Run, count: int) -> None:
    Trial.objects.filter(run=run).delete()
    Trial.objects.bulk_create(
        Trial(run=run, ordinal=n, task_name=f"task-{n:04d}", task_checksum="0" * 64, bucket="cancelled")
        for n in range(1, count + 1)
    )


def test_thousands_of_trials_come_in_windows(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "queued"), browse("viewer")
    many_trials(run, 5000)
    Run.objects.filter(pk=run.pk).update(count_requested=5000)
    text = text_of(client, run)
    assert "task-0050" in text
    assert "task-0051" not in text
    last = text_of(client, run, "?from=4999")
    assert "task-5000" in last
    assert "Trials 4,951 to 5,000 of 5,000" in plain(last)


def test_pages_of_many_trials_read_rows_and_open_no_file(
    site: Site, browse: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are parsed once, when a run ends, and never for a page."""

    def opened(*arguments: Any, **_more: Any) -> None:
        raise AssertionError(f"opened: {arguments}")

    run, client = make_run(site, "queued"), browse("operator")
    many_trials(run, 1400)
    Run.objects.filter(pk=run.pk).update(count_requested=1400)
    text_of(client, run)  # templates are loaded
    for name in (
        "benchsite.lib.folder.Folder.open",
        "evidence.suite.run_facts.read_run",
        "evidence.register.store.open_stored",
    ):
        monkeypatch.setattr(name, opened)
    assert "task-0050" in text_of(client, run)
    assert client.get("/runs/").status_code == 200


@pytest.mark.parametrize("asked", ["-1", "0", "x", "999999999999", "1.5", ""])
def test_a_window_that_is_none_is_moved_inside(site: Site, browse: Browser, asked: str) -> None:
    assert "ledger-totals" in text_of(browse("viewer"), make_run(site, "passed"), f"?from={asked}")


def test_a_run_page_costs_a_fixed_number_of_queries(
    site: Site, browse: Browser, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run, client = make_run(site, "error"), browse("operator")
    text_of(client, run)
    with django_assert_num_queries(_RUN_PAGE_QUERIES):
        text_of(client, run)
    many_trials(run, 300)
    append_log(run.pk, [Line(source="engine", text="more")] * 300)
    with django_assert_num_queries(_RUN_PAGE_QUERIES):
        text_of(client, run)


_RUN_PAGE_QUERIES = 14


def test_the_trial_page_names_the_step_that_decided(site: Site, browse: Browser) -> None:
    run = make_run(site, "error")
    html = browse("viewer").get(f"/runs/{run.key}/trials/3/").content.decode()
    steps = re.findall(r'<li class="(decided attention|off|)">.*?<b>([^<]+)</b>', html.split('class="proof"')[1])
    assert [word for tone, word in steps if "decided" in tone] == ["Graded 0 or 1"]
    assert "Error, not graded" in html


def test_later_steps_are_not_judged_once_one_decided(site: Site, browse: Browser) -> None:
    run = make_run(site, "incomplete")
    html = browse("viewer").get(f"/runs/{run.key}/trials/2/").content.decode()
    steps = dict(
        re.findall(
            r'<li class="(?:decided attention|off|)">.*?<b>([^<]+)</b><small>([^<]+)', html.split('class="proof"')[1]
        )
    )
    assert steps["Within its time"] == "The agent time limit was reached"
    assert steps["Model answered"].startswith("not judged")
    assert "5 min reached" in plain(html)


def test_a_trial_that_is_none_is_not_found(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    for ordinal in ("0", "4", "99999999999999999999"):
        assert browse("viewer").get(f"/runs/{run.key}/trials/{ordinal}/").status_code == 404


def test_a_reward_after_the_limit_is_shown_and_not_counted(site: Site, browse: Browser) -> None:
    run = make_run(site, "incomplete")
    trial = Trial.objects.get(run=run, ordinal=2)
    Trial.objects.filter(pk=trial.pk).delete()
    trial.pk, trial.reward, trial.badges = None, 1, ["graded_after_limit"]
    trial.save(force_insert=True)
    text = plain(signed_in(site, "viewer").get(f"/runs/{run.key}/trials/2/").content.decode())
    assert "1, kept and not counted" in text
    assert "after a time limit" in text


def test_what_was_noted_of_the_models_answers_is_counted(site: Site) -> None:
    run = make_run(site, "passed")
    trial = Trial.objects.get(run=run, ordinal=2)
    result = json.loads(trial.result)
    result["usage"] |= {"answers_cut": 3, "answers_refused": 1, "context_overflows": 0}
    Trial.objects.filter(pk=trial.pk).delete()
    trial.pk, trial.badges, trial.result = None, ["answer_cut", "model_refused"], json.dumps(result)
    trial.save(force_insert=True)
    text = plain(signed_in(site, "viewer").get(f"/runs/{run.key}/trials/2/").content.decode())
    assert "An answer was cut at the token limit. 3 answers." in text
    assert "The model refused. 1 answer." in text
    row = plain(signed_in(site, "viewer").get(f"/runs/{run.key}/").content.decode())
    assert "An answer was cut at the token limit." in row


def test_a_trial_that_ran_into_its_limit_says_so_at_the_step_and_beside_it_what_it_may_write(site: Site) -> None:
    run = make_run(site, "incomplete")
    text = plain(signed_in(site, "viewer").get(f"/runs/{run.key}/trials/2/").content.decode())
    assert "Within its time The agent time limit was reached" in text
    assert "Writable storage never reached limit 328 MiB" in text
    assert "Tokens in / out not reported the record holds no count" in text


def test_a_queued_run_says_what_it_waits_for(site: Site, browse: Browser) -> None:
    first = make_run(site, "queued", name="first", at=timezone.now() - timedelta(minutes=1))
    second = make_run(site, "queued", name="second", at=timezone.now())
    assert "Waiting for worker-1. 1 run is ahead of this one. Nothing" in plain(text_of(browse("viewer"), second))
    assert "Waiting for worker-1. Nothing" in plain(text_of(browse("viewer"), first))
    Worker.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    assert "The worker is not running: start it there with manage.py worker." in plain(text_of(browse("viewer"), first))


def test_an_endpoint_that_was_not_ready_is_named_with_its_remedy(site: Site, browse: Browser) -> None:
    run = make_run(site, "broken")
    Run.objects.filter(pk=run.pk).update(failure_code="endpoint.wrong_model", failure_class="routing")
    text = plain(text_of(browse("viewer"), run))
    assert "The endpoint answered with another model's name. No trial was graded." in unescape(text)
    assert "Correct the alias, or declare the name" in text
    Run.objects.filter(pk=run.pk).update(failure_code="endpoint.not_ready", failure_class="serving_runtime")
    assert "The endpoint cannot serve now. No trial" in plain(text_of(browse("viewer"), run))


def test_a_trial_that_never_started_claims_nothing_about_what_was_never_done(site: Site, browse: Browser) -> None:
    run = make_run(site, "broken")
    Trial.objects.filter(run=run).update(started_at=None)
    text = unescape(plain(browse("viewer").get(f"/runs/{run.key}/trials/1/").content.decode()))
    assert text.count("not judged: the trial never started") == 7
    assert "graded before" not in text and "were not readable" not in text


def test_a_trial_that_was_not_graded_is_not_said_to_be_graded_in_time(site: Site, browse: Browser) -> None:
    run = make_run(site, "error")
    trial = Trial.objects.get(run=run, failure_code="grading.reward_boolean")
    text = plain(browse("viewer").get(f"/runs/{run.key}/trials/{trial.ordinal}/").content.decode())
    assert "no deadline came first" in text and "graded before every deadline" not in text


def test_a_secret_that_was_found_says_why_a_run_is_an_error_and_what_to_do(site: Site, browse: Browser) -> None:
    run, secret = make_run(site, "error"), "sk-the-value-that-leaked"
    keep(run, {f"trials/1/kept/artifacts/{secret}.txt": b"x"}, (secret,))
    run.trials.exclude(ordinal=1).delete()
    Run.objects.filter(pk=run.pk).update(count_requested=1, count_evaluated=1, count_failed=0, count_error=0)
    text = plain(text_of(browse("operator"), run))
    assert "graded, but an integrity check failed, so this run does not count as a pass." in text
    assert "Replace that credential where it is stored." in text and secret not in text


def test_a_run_with_many_acts_says_that_the_first_ones_are_not_shown(site: Site, browse: Browser) -> None:
    run = make_run(site, "error")
    assert "entries; the admin has" not in text_of(browse("operator"), run)
    for number in range(11):
        AuditEntry.objects.create(kind="download", actor_name=f"reader-{number}", run_id=run.pk, detail={})
    text = plain(text_of(browse("operator"), run))
    assert "The last 12 entries; the admin has the older ones." in text and "reader-10" in text
    assert "previewed the run" not in text and "started the run" in text
