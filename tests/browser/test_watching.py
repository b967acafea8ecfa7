"""A page that is being watched in a real browser: one question at a time, and nothing is taken from who reads it."""

import pytest
from playwright.sync_api import Page, expect

from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import lifecycle, transitions
from runs.services.runlog import Line, append_log
from runs.services.transitions import ResourceState
from tests.browser.conftest import PATIENCE_MS, sign_in
from tests.browser.test_story import count
from tests.pages.factories import Site, make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def watched(page: Page, run: Run) -> None:
    sign_in(page, "operator-1")
    page.goto(f"/runs/{run.key}/")


def said(run: Run, text: str) -> None:
    append_log(run.pk, [Line(source="engine", text=text)])


def test_a_page_asks_one_question_every_two_seconds_until_its_run_has_ended(site: Site, page: Page) -> None:
    run, asked = make_run(site, "running"), list[str]()
    page.on("request", lambda request: asked.append(request.url) if "/live/" in request.url else None)
    watched(page, run)
    with page.expect_response(lambda answer: "/live/" in answer.url and answer.status == 304, timeout=PATIENCE_MS):
        pass  # of three questions at least one falls between two steps of the clock of what grows
    said(run, "something happened")
    expect(page.locator(".log")).to_contain_text("something happened")
    lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="grading", failure_code="grading.reward_boolean")
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
    expect(page.locator("h2#verdict")).to_have_text("Error")
    expect(page.locator(".facts .live")).to_have_text("Final")
    expect(page.locator("#poller[hx-get]")).to_have_count(0)
    expect(page.get_by_role("link", name="Compare", exact=True).last).to_be_visible()
    assert set(asked) == {page.url + "live/"}


def test_what_changes_leaves_place_keyboard_and_folds_as_they_were(site: Site, page: Page) -> None:
    run = make_run(site, "running")
    append_log(run.pk, [Line(source="engine", text=f"line {number}") for number in range(200)])
    lifecycle.mirror_journal(run.pk, [resource("gone", outcome="removed")])
    watched(page, run)
    page.locator("#panel-owned details").evaluate("fold => { fold.open = true }")
    page.locator("#panel-trials .name").nth(1).focus()
    page.locator(".log").evaluate("box => { box.scrollTop = 40 }")
    said(run, "the log changes")
    lifecycle.record_trial(run.pk, 2, transitions.TrialEnd(bucket=Bucket.FAILED, reward=0))
    lifecycle.mirror_journal(run.pk, [resource("gone too", outcome="removed")])
    expect(page.locator(".log")).to_contain_text("the log changes")
    expect(page.locator(count(page, "Failed"))).to_have_text("1")
    expect(page.locator("#panel-trials .name").nth(1)).to_be_focused()
    assert page.locator(".log").evaluate("box => box.scrollTop") == 40
    assert page.locator("#panel-owned details").evaluate("fold => fold.open")


def resource(nonce: str, *, outcome: str = "") -> ResourceState:
    return ResourceState(
        nonce=nonce, kind="container", role="probe", trial=None, resource_id="0" * 64, stage="removed", outcome=outcome
    )


def test_a_log_that_is_read_at_its_end_follows_it(site: Site, page: Page) -> None:
    run = make_run(site, "running")
    append_log(run.pk, [Line(source="engine", text=f"line {number}") for number in range(200)])
    watched(page, run)
    said(run, "the newest line")
    expect(page.locator(".log")).to_contain_text("the newest line")
    assert page.locator(".log").evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 24


def test_a_retried_cleanup_shows_its_result_without_loading_again(site: Site, page: Page) -> None:
    run = make_run(site, "error")
    watched(page, run)
    loaded: list[str] = []
    page.get_by_role("button", name="Retry cleanup").click()
    expect(page.locator("#panel-owned")).to_contain_text("retry requested at")
    page.on("framenavigated", lambda frame: loaded.append(frame.url))
    lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.CLEAN)
    expect(page.locator("#owned + .tag")).to_have_text("clean")
    expect(page.locator("#poller[hx-get]")).to_have_count(0)
    assert loaded == []
