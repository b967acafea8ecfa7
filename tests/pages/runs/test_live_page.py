"""A page that is watched asks one address for all of its parts, is sent what changed alone, and stops at the end."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.models import Cleanup, Run, RunState, Trial, Worker
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import cleaning, lifecycle, transitions
from runs.services.runlog import Line, append_log
from runs.web.views.run_panels import NAMES
from tests.pages.conftest import Browser
from tests.pages.evidence_files import keep
from tests.pages.factories import PLANS, Site, make_run

ENDED = [kind for kind in PLANS if kind not in ("running", "queued")]


@pytest.fixture(autouse=True)
def still_clock() -> Iterator[None]:
    """What grows with the clock would change between two questions, once in a few hundred times."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


def asked(client: Client, run: Run, tag: str = "", query: str = "") -> Any:
    headers = {"HX-Request": "true"} | ({"If-None-Match": tag} if tag else {})
    return client.get(f"/runs/{run.key}/live/{query}", headers=headers)


def sent(response: Any) -> list[str]:
    """The names of the parts in an answer."""
    text = response.content.decode()
    names = re.findall(r'data-panel="(\w+)"', text)
    assert text.count('hx-swap-oob="true"') == len(names)
    return names


def poller(html: str) -> dict[str, str]:
    """What the page asks with: its address and headers; nothing when it does not ask."""
    (place,) = re.findall(r'<div id="poller" hidden([^>]*)>', html)
    address, headers = re.search(r'hx-get="([^"]+)"', place), re.search(r"hx-headers='([^']+)'", place)
    return {"address": address[1].replace("&amp;", "&"), **json.loads(headers[1])} if address and headers else {}


def opened(client: Client, run: Run, query: str = "") -> str:
    return str(client.get(f"/runs/{run.key}/{query}").content.decode())


@pytest.mark.parametrize("kind", ["running", "queued"])
def test_a_page_of_several_parts_asks_once(site: Site, browse: Browser, kind: str) -> None:
    html = opened(browse("operator"), make_run(site, kind))
    assert html.count("hx-get") == html.count('hx-trigger="every 2s"') == 1
    assert re.findall(r'data-panel="(\w+)"', html) == list(NAMES)
    assert "hx-swap-oob" not in html


def test_nothing_is_sent_while_nothing_changed(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    asks = poller(opened(client, run))
    again = client.get(asks["address"], headers={"If-None-Match": asks["If-None-Match"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", asks["If-None-Match"])


def test_an_answer_brings_the_tags_to_ask_with_from_then_on(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    asks = poller(opened(client, run))
    append_log(run.pk, [Line(source="engine", text="a new line")])
    answer = asked(client, run, asks["If-None-Match"])
    assert poller(answer.content.decode())["If-None-Match"] == answer["ETag"] != asks["If-None-Match"]
    assert asked(client, run, answer["ETag"]).status_code == 304


@pytest.mark.parametrize("tag", ["", '"x"', "W/nothing", '"."', "." * 1000])
def test_who_has_nothing_is_sent_everything(site: Site, browse: Browser, tag: str) -> None:
    assert sent(asked(browse("operator"), make_run(site, "running"), tag)) == list(NAMES)


def test_a_new_log_line_brings_the_log_alone(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    tag = asked(client, run)["ETag"]
    append_log(run.pk, [Line(source="engine", text="a new line")])
    answer = asked(client, run, tag)
    assert sent(answer) == ["log"] and b"a new line" in answer.content


def test_a_graded_trial_changes_verdict_and_trials_and_not_the_log(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    tag = asked(client, run)["ETag"]
    lifecycle.record_trial(run.pk, 2, transitions.TrialEnd(bucket=Bucket.FAILED, reward=0))
    names = sent(asked(client, run, tag))
    assert {"verdict", "trials"} <= set(names) and "log" not in names


def test_the_window_that_is_being_watched_stays_the_one_that_is_sent(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    Trial.objects.bulk_create(
        Trial(run=run, ordinal=n, task_name=f"task-{n:04d}", task_checksum="0" * 64) for n in range(4, 121)
    )
    Run.objects.filter(pk=run.pk).update(count_requested=120)
    append_log(run.pk, [Line(source="engine", text=f"line {number}") for number in range(600)])
    asks = poller(opened(client, run, "?from=51&log=all"))
    assert asks["address"] == f"/runs/{run.key}/live/?from=51&log=all"
    text = client.get(asks["address"]).content.decode()
    assert "task-0051" in text and "task-0101" not in text and ">line 10<" in text


@pytest.mark.parametrize("kind", ENDED)
def test_nothing_is_asked_once_the_run_has_ended(site: Site, browse: Browser, kind: str) -> None:
    run, client = make_run(site, kind), browse("operator")
    html = opened(client, run)
    assert "hx-get" not in html and poller(html) == poller(asked(client, run).content.decode()) == {}


def test_a_page_that_shows_the_end_already_is_still_told_to_stop(site: Site, browse: Browser) -> None:
    """The last trial is judged a moment before the verdict: what a reader has then is final, but asks."""
    run, client = make_run(site, "running"), browse("operator")
    lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="grading", failure_code="grading.reward_boolean")
    before = asked(client, run)
    assert poller(before.content.decode())
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED)
    after = asked(client, run, before["ETag"])
    assert after.status_code == 200 and not poller(after.content.decode())


def test_the_end_brings_the_heads_actions_the_acts_and_the_evidence(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    tag = asked(client, run)["ETag"]
    lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="grading", failure_code="grading.reward_boolean")
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
    answer = asked(client, run, tag)
    assert {"head", "verdict", "owned", "evidence"} <= set(sent(answer))
    assert f"?candidate={run.key}" in answer.content.decode()


# --- a cleanup that is tried again ---


def test_a_page_asks_on_while_a_cleanup_that_was_asked_for_is_open(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "error"), browse("operator")
    assert not poller(opened(client, run))
    client.post(f"/runs/{run.key}/cleanup/")
    html = opened(client, run)
    asks = poller(html)
    assert asks and "retry requested at" in html
    assert client.get(asks["address"], headers={"If-None-Match": asks["If-None-Match"]}).status_code == 304


@pytest.mark.parametrize("result", [Cleanup.CLEAN, Cleanup.FAILED])
def test_a_page_is_told_how_a_retried_cleanup_went_and_stops(site: Site, browse: Browser, result: Cleanup) -> None:
    run, client = make_run(site, "error"), browse("operator")
    client.post(f"/runs/{run.key}/cleanup/")
    tag = poller(opened(client, run))["If-None-Match"]
    lifecycle.cleanup_changed(run.pk, cleanup=result)
    answer = asked(client, run, tag)
    text = answer.content.decode()
    assert "owned" in sent(answer) and not poller(text) and "was asked again" not in text
    assert ("Retry cleanup" in text) is (result is Cleanup.FAILED)


def test_a_page_stops_when_somebody_declares_what_a_retry_cannot_find_out(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "error"), browse("operator")
    client.post(f"/runs/{run.key}/cleanup/")
    tag = poller(opened(client, run))["If-None-Match"]
    assert lifecycle.declare_resolved(run.pk, user=site.admin, reason="the host was taken apart")
    answer = asked(client, run, tag)
    assert {"verdict", "owned"} <= set(sent(answer)) and not poller(answer.content.decode())


def test_a_retry_of_a_clean_run_opens_nothing(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    assert cleaning.request_cleanup(user=site.operator, run=run) is False
    assert not poller(opened(browse("operator"), run))


# --- what is remembered for a second ---


@pytest.fixture
def remembering(settings: Any) -> Iterator[None]:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    yield
    cache.clear()


def test_parts_are_made_once_a_second_for_all_who_may_see_the_same(
    site: Site, browse: Browser, remembering: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run = make_run(site, "running")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        first = asked(browse("operator"), run)
        Trial.objects.filter(run=run, ordinal=1).update(task_name="renamed-meanwhile")
        second, client = asked(browse("other_operator"), run), browse("other_operator")
        assert second["ETag"] == first["ETag"] and b"renamed-meanwhile" not in second.content
        assert asked(client, run, first["ETag"]).status_code == 304
        with django_assert_num_queries(3):  # session, person, permissions
            asked(client, run, first["ETag"])
        clock.shift(1.1)
        answer = asked(client, run, first["ETag"])
        assert sent(answer) == ["trials"] and b"renamed-meanwhile" in answer.content


def test_what_is_remembered_never_shows_more_than_a_reader_may_see(
    site: Site, browse: Browser, remembering: None
) -> None:
    run = make_run(site, "running")
    append_log(run.pk, [Line(source="engine", text="a private line")])
    shown_to_operators = asked(browse("operator"), run)
    assert b"a private line" in shown_to_operators.content
    shown = asked(browse("viewer"), run, shown_to_operators["ETag"]).content.decode()
    assert "a private line" not in shown and "csrfmiddlewaretoken" not in shown
    resource = run.resources.exclude(resource_id="").first()
    assert resource is not None and resource.resource_id not in shown
    assert browse("anonymous").get(f"/runs/{run.key}/live/").status_code == 302


def test_a_role_that_was_taken_away_ends_what_is_shown_at_once(site: Site, browse: Browser, remembering: None) -> None:
    run, client = make_run(site, "running"), browse("operator")
    append_log(run.pk, [Line(source="engine", text="a private line")])
    assert b"a private line" in asked(client, run).content
    site.operator.groups.clear()
    assert asked(client, run).status_code == 403


def test_a_remembered_form_carries_the_readers_own_token(site: Site, browse: Browser, remembering: None) -> None:
    run, tokens = make_run(site, "running"), []
    for who in ("operator", "other_operator"):
        client = browse(who)
        client.get(f"/runs/{run.key}/")
        found = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', asked(client, run).content.decode())
        tokens += found
    assert len(tokens) == 2 and tokens[0] != tokens[1]


@pytest.mark.parametrize(
    ("kind", "act", "shown"), [("running", "cancel", "Cancelling"), ("error", "cleanup", "retry requested at")]
)
def test_a_page_remembers_nothing_of_the_moment_before_an_act(
    site: Site, browse: Browser, remembering: None, kind: str, act: str, shown: str
) -> None:
    run, client = make_run(site, kind), browse("operator")
    assert shown not in opened(client, run) and shown not in asked(client, run).content.decode()
    assert shown in client.post(f"/runs/{run.key}/{act}/", follow=True).content.decode()


def test_people_who_open_a_page_at_once_share_what_is_made(
    site: Site, browse: Browser, remembering: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run, client, other = make_run(site, "running"), browse("operator"), browse("other_operator")
    with time_machine.travel(timezone.now(), tick=False):
        first = opened(client, run)
        with django_assert_num_queries(5):  # session, person, permissions, run, its last acts
            second = opened(other, run)
    assert poller(second) == poller(first)
    tokens = [set(re.findall(r'csrfmiddlewaretoken" value="([^"]+)"', text)) for text in (first, second)]
    assert all(tokens) and not tokens[0] & tokens[1]


# --- other pages ---


def test_the_overview_asks_once_and_is_sent_what_changed(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("viewer")
    asks = poller(client.get("/").content.decode())
    assert asks["address"] == "/live/"
    assert client.get("/live/", headers={"If-None-Match": asks["If-None-Match"]}).status_code == 304
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    answer = client.get("/live/", headers={"If-None-Match": asks["If-None-Match"]})
    assert sent(answer) == ["now"] and poller(answer.content.decode())


def test_every_part_of_the_overview_is_as_new_as_it_says(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("viewer")
    tag = poller(client.get("/").content.decode())["If-None-Match"]
    lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="grading", failure_code="grading.reward_boolean")
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
    Worker.objects.update(draining=True)
    answer = client.get("/live/", headers={"If-None-Match": tag})
    assert sent(answer) == ["now", "models", "recent", "workers"]


def test_a_heartbeat_alone_changes_nothing_on_the_overview(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    tag = poller(client.get("/").content.decode())["If-None-Match"]
    Worker.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=30))
    assert client.get("/live/", headers={"If-None-Match": tag}).status_code == 304


# --- a trial's page ---


def test_a_trials_page_asks_until_its_run_has_ended(site: Site, browse: Browser) -> None:
    run, client = make_run(site, "running"), browse("operator")
    asks = poller(client.get(f"/runs/{run.key}/trials/2/").content.decode())
    assert asks["address"] == f"/runs/{run.key}/trials/2/live/"
    assert client.get(asks["address"], headers={"If-None-Match": asks["If-None-Match"]}).status_code == 304
    Trial.objects.filter(run=run, ordinal=2).update(stage="verifier")
    changed = client.get(asks["address"], headers={"If-None-Match": asks["If-None-Match"]})
    assert sent(changed) == ["result"] and "A separate verifier is grading" in changed.content.decode()
    lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="grading", failure_code="grading.reward_boolean")
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
    last = client.get(asks["address"], headers={"If-None-Match": changed["ETag"]})
    assert sent(last) == ["head", "result", "evidence"] and not poller(last.content.decode())
    assert "hx-get" not in client.get(f"/runs/{run.key}/trials/2/").content.decode()


def test_a_trials_parts_hold_nothing_private_for_viewers(site: Site, browse: Browser, remembering: None) -> None:
    run = make_run(site, "passed")
    keep(run)
    path = f"/runs/{run.key}/trials/1/live/"
    assert "test-stdout.txt" in browse("operator").get(path).content.decode()
    assert "test-stdout.txt" not in browse("viewer").get(path).content.decode()
