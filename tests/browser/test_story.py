"""The whole story in a real browser, with and without scripts: preview, refusal, start, watch, cancel, compare.

A test plays the worker's part through the same functions that the worker calls.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from runs.models import AuditEntry, Cleanup, Run, RunState, Stage
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import lifecycle, transitions, workers
from runs.services.runlog import Line, append_log
from tests.browser.conftest import sign_in
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, digest, make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@dataclass
class Process:
    pid: int = 4242
    start_ticks: int = 7
    boot_id: str = "boot"


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def person(request: pytest.FixtureRequest, chromium: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A page in a browser that runs scripts, or does not."""
    context = chromium.new_context(
        base_url=live_server.url,
        viewport={"width": 1280, "height": 900},
        java_script_enabled=request.param,
        accept_downloads=True,
    )
    page = context.new_page()
    page.scripted = request.param  # type: ignore[attr-defined]
    yield page
    context.close()


def refreshed(page: Page) -> Page:
    """A page without scripts is loaded again by hand; one with scripts updates itself."""
    if not page.scripted:  # type: ignore[attr-defined]
        page.reload()
    return page


def previewed(page: Page) -> None:
    page.goto("/runs/new/")
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(page.get_by_role("heading", name="Preview")).to_be_visible()
    page.wait_for_load_state("load")  # all boxes are there


def started(page: Page) -> Run:
    previewed(page)
    for box in page.locator("input[name=accept]").all():
        box.check()
    page.get_by_role("button", name="Start this run").click()
    expect(page.locator("h2#verdict")).to_have_text("Queued")
    return Run.objects.latest("created_at")


def claimed(run: Run) -> None:
    assert lifecycle.claim(run.pk, worker="worker-1", identity=Process(), host="bench-1.internal")
    for stage in (Stage.GATEWAY, Stage.PROBE):
        lifecycle.enter_stage(run.pk, stage)


def graded(run: Run, ordinal: int, reward: int) -> None:
    lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=ordinal)
    lifecycle.start_trial(run.pk, ordinal, stage="agent")
    bucket = Bucket.PASSED if reward else Bucket.FAILED
    lifecycle.record_trial(run.pk, ordinal, transitions.TrialEnd(bucket=bucket, reward=reward, steps=5))


def count(page: Page, word: str) -> str:
    return f"dl.sum > div:has(dt:text-is('{word}')) .n"


def says_how_old_it_is(page: Page) -> None:
    """A page that moves says when it last did; one that cannot says of when it is, and how to see what is new."""
    again = page.get_by_role("link", name="reload it")
    if page.scripted:  # type: ignore[attr-defined]
        expect(page.locator(".facts .live")).to_have_text(re.compile(r"Updated \d+ s ago"))
        expect(again).to_have_count(0)
    else:
        expect(page.locator(".facts .live")).to_be_hidden()
        expect(page.get_by_text("following", exact=True)).to_be_hidden()
        expect(again).to_be_visible()


def test_from_preview_to_verdict(site: Site, person: Page) -> None:
    sign_in(person, "operator-1")
    run = started(person)
    claimed(run)
    lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=1)
    lifecycle.start_trial(run.pk, 1, stage="agent")
    append_log(run.pk, [Line(source="engine", text="trial 1: agent container started")])
    expect(refreshed(person).locator("h2#verdict")).to_have_text("Running")
    expect(person.locator(".sentence")).to_contain_text("Task 1 of 3")
    expect(person.locator(".log")).to_contain_text("agent container started")
    says_how_old_it_is(person)
    for ordinal in (1, 2, 3):
        graded(run, ordinal, 1)
        expect(refreshed(person).locator(count(person, "Passed"))).to_have_text(str(ordinal))
        expect(person.locator(count(person, "Pending"))).to_have_text(str(3 - ordinal))
    lifecycle.enter_stage(run.pk, Stage.CLEANUP)
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN)
    expect(refreshed(person).locator("h2#verdict")).to_have_text("Passed")
    expect(person.locator(".facts")).to_contain_text("Final")
    expect(person.locator("[hx-get]")).to_have_count(0)


def test_a_world_that_changed_refuses_the_start(site: Site, person: Page) -> None:
    sign_in(person, "operator-1")
    previewed(person)
    recipe = site.worker.image_locks.get(role="verifier").recipe_sha256
    workers.record_image_locks(
        "worker-1", {"verifier": {"image_id": f"sha256:{digest('rebuilt')}", "recipe_sha256": recipe}}
    )
    for box in person.locator("input[name=accept]").all():
        box.check()
    person.get_by_role("button", name="Start this run").click()
    expect(person.get_by_role("alert")).to_contain_text("Start refused")
    expect(person.get_by_role("alert")).to_contain_text("images.verifier")
    assert not Run.objects.exists()
    person.get_by_role("link", name="New preview").click()
    expect(person.get_by_role("heading", name="New run")).to_be_visible()


def test_the_gate_stays_shut_until_each_limit_is_accepted(site: Site, person: Page) -> None:
    sign_in(person, "operator-1")
    previewed(person)
    person.get_by_role("button", name="Start this run").click()
    expect(person.get_by_role("heading", name="Preview")).to_be_visible()
    assert not Run.objects.exists()


def test_cancel_says_what_it_does_and_does_it_once(site: Site, person: Page) -> None:
    sign_in(person, "operator-1")
    run = started(person)
    claimed(run)
    graded(run, 1, 1)
    lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=2)
    lifecycle.start_trial(run.pk, 2, stage="agent")
    panel = person.locator("#panel-owned")
    expect(refreshed(person).locator("#panel-owned")).to_contain_text("the harness and its process group")
    panel.get_by_role("button", name=re.compile("Cancel run")).click()
    expect(person.get_by_role("status").first).to_contain_text("Cancelling")
    expect(person.locator("h2#verdict")).to_have_text("Cancelling")
    expect(panel.get_by_role("button", name=re.compile("Cancel run"))).to_have_count(0)
    lifecycle.close_trials(
        run.pk, bucket=Bucket.CANCELLED, failure_class="cancelled", failure_code="cancelled.requested"
    )
    lifecycle.finish(run.pk, state=RunState.CANCELLED, verdict=Verdict.CANCELLED, cleanup=Cleanup.CLEAN)
    expect(refreshed(person).locator("h2#verdict")).to_have_text("Cancelled")
    expect(person.locator(count(person, "Cancelled"))).to_have_text("2")
    assert AuditEntry.objects.filter(kind="cancel").count() == 1


def test_evidence_is_opened_downloaded_and_its_hash_is_right(site: Site, person: Page) -> None:
    run = make_run(site, "passed")
    keep(run)
    sign_in(person, "operator-1")
    person.goto(f"/runs/{run.key}/")
    person.get_by_role("link", name=re.compile("Show all")).click()
    row = person.locator("tr", has_text="spec.json")
    shown = row.locator(".digest code").text_content()
    with person.expect_download() as waiting:
        row.get_by_role("link", name=re.compile("Download")).click()
    data = waiting.value.path().read_bytes()
    assert hashlib.sha256(data).hexdigest() == shown
    assert waiting.value.suggested_filename == "spec.json"
    row.get_by_role("link", name=re.compile("View")).click()
    expect(person.locator("pre.term")).to_contain_text("benchsite.run-spec/v1")


def test_a_good_and_a_bad_run_are_compared(site: Site, person: Page) -> None:
    good, bad = make_run(site, "passed"), make_run(site, "failed")
    sign_in(person, "viewer-1")
    person.goto(f"/runs/{bad.key}/")
    person.get_by_role("link", name="Compare").last.click()
    person.get_by_label("Baseline").select_option(good.key)
    person.get_by_label("Candidate").select_option(bad.key)
    person.get_by_role("button", name="Compare").click()
    expect(person.locator("#base")).to_contain_text("Passed")
    expect(person.locator("table.cards").last).to_contain_text("Regressed")
    person.get_by_role("link", name=re.compile("^Improved")).click()
    expect(person.get_by_text("No task improved.")).to_be_visible()


def test_a_cleanup_is_retried_on_the_page_and_in_the_admin(site: Site, person: Page) -> None:
    run = make_run(site, "error")
    sign_in(person, "admin-1")
    person.goto(f"/runs/{run.key}/")
    person.get_by_role("button", name="Retry cleanup").click()
    expect(person.get_by_role("status")).to_contain_text("Cleanup requested from worker-1")
    person.goto("/admin/runs/run/")
    person.locator("input.action-select").first.check()
    person.locator("select[name=action]").select_option("retry_cleanup")
    person.get_by_role("button", name=re.compile("Go|Run")).first.click()
    expect(person.locator(".messagelist")).to_contain_text("cleanup requested")
    assert AuditEntry.objects.filter(kind="cleanup").count() == 2
    assert Run.objects.get().verdict == "error"


def test_a_trajectory_is_searched_and_walked(site: Site, person: Page) -> None:
    run = make_run(site, "passed")
    keep(run)
    sign_in(person, "operator-1")
    person.goto(f"/runs/{run.key}/trials/2/trajectory/")
    person.get_by_role("link", name="First error").click()
    expect(person).to_have_url(re.compile(r"from=1#step-4$"))
    person.get_by_role("searchbox").fill("typo")
    person.get_by_role("button", name="Search").click()
    expect(person.locator("mark").first).to_have_text("typo")


def test_j_and_k_walk_the_steps(site: Site, page: Page) -> None:
    run = make_run(site, "passed")
    keep(run)
    sign_in(page, "operator-1")
    page.goto(f"/runs/{run.key}/trials/2/trajectory/")
    for key, step in (("j", 1), ("j", 2), ("j", 3), ("k", 2)):
        page.keyboard.press(key)
        expect(page.locator(f"#step-{step}")).to_be_focused()
    expect(page).to_have_url(re.compile("#step-2$"))
    page.get_by_role("searchbox").press_sequentially("jk")
    expect(page.get_by_role("searchbox")).to_have_value("jk")


def test_a_link_to_a_step_of_another_window_is_followed(site: Site, page: Page) -> None:
    from tests.pages.evidence.test_trajectory_page import a_run
    from tests.pages.evidence_files import native_trajectory

    run = a_run(site, native_trajectory(120))
    sign_in(page, "operator-1")
    page.goto(f"/runs/{run.key}/trials/1/trajectory/#step-57")
    expect(page.locator("#step-57")).to_be_visible()
    expect(page).to_have_url(re.compile(r"from=51#step-57$"))


def test_signing_out_elsewhere_leads_a_watching_page_to_the_sign_in(site: Site, page: Page) -> None:
    run = make_run(site, "running")
    sign_in(page, "operator-1")
    page.goto(f"/runs/{run.key}/")
    page.context.clear_cookies()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_phone_has_its_menu_without_scripts(site: Site, chromium: Browser, live_server: LiveServer) -> None:
    context = chromium.new_context(
        base_url=live_server.url, viewport={"width": 390, "height": 800}, java_script_enabled=False
    )
    page = context.new_page()
    sign_in(page, "viewer-1")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Workers").first.click()
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    context.close()


def test_the_chosen_appearance_stays(site: Site, person: Page) -> None:
    sign_in(person, "viewer-1")
    person.goto("/account/")
    person.get_by_role("button", name="Dark").click()
    expect(person.locator("html")).to_have_attribute("data-theme", "dark")
    person.goto("/runs/")
    expect(person.locator("html")).to_have_attribute("data-theme", "dark")
