"""The whole story in a real browser against a real worker, engine and Harbor, with and without scripts.

Preview, a refusal because something changed, start, counts that move, cancel, a cleanup that fails and is retried
in the admin, evidence with its hash, and the comparison of a good run with a bad one. Only the model is scripted.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from runs.containers import connect
from runs.scripted.scripts import Mode
from tests.browser.conftest import PATIENCE_MS, sign_in
from tests.browser.real_site import FIRST, SECOND, RealSite, real_site
from tests.browser.test_every_page import violations
from tests.browser.test_story import count
from tests.engine.site import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.harbor_compatibility]


@pytest.fixture(scope="module")
def real() -> Iterator[RealSite]:
    with real_site() as found:
        yield found


@dataclass
class Story:
    """Two people's browsers on one real site: an operator's and an administrator's."""

    real: RealSite
    operator: Page
    admin: Page
    scripted: bool
    name: str

    def alias(self, mode: Mode) -> str:
        return f"story-{self.name}-{mode.value}"

    def comes(self, holds: Callable[[Page], Locator], text: str) -> None:
        """Wait until the page shows ``text`` there: by itself, or without scripts by loading it again and again."""
        if self.scripted:
            expect(holds(self.operator)).to_have_text(text)
        else:
            self.comes_after_loading(holds, text)

    def comes_after_loading(self, holds: Callable[[Page], Locator], text: str) -> None:
        page, deadline = self.operator, time.monotonic() + PATIENCE_MS / 1000
        while (holds(page).text_content() or "").strip() != text:
            assert time.monotonic() < deadline, f"{text} was never shown"
            page.wait_for_timeout(300)
            page.reload()


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def story(request: pytest.FixtureRequest, chromium: Browser, real: RealSite) -> Iterator[Story]:
    context, other = (
        chromium.new_context(
            base_url=real.url,
            viewport={"width": 1280, "height": 900},
            java_script_enabled=request.param,
            accept_downloads=True,
        )
        for _ in range(2)
    )
    told = Story(real, context.new_page(), other.new_page(), request.param, "js" if request.param else "plain")
    yield told
    for opened in (context, other):
        opened.close()


def registered(story: Story, mode: Mode, *, timeout_s: int = 120) -> None:
    """An administrator registers the endpoint, or its next version, in the admin."""
    alias, real, page = story.alias(mode), story.real, story.admin
    real.plays(alias, mode)
    page.goto("/admin/runs/endpoint/add/")
    page.fill("#id_name", alias)
    page.fill("#id_base_url", real.base_url)
    page.fill("#id_model", alias)
    page.select_option("#id_route", "direct")
    page.check("#id_private_addresses")
    page.check("#id_scripted")
    page.select_option("#id_credential_kind", "file")
    page.fill("#id_credential_name", str(real.key_file))
    page.fill("#id_request_timeout_s", str(timeout_s))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("added successfully")


def previewed(story: Story, mode: Mode) -> None:
    page = story.operator
    page.goto("/runs/new/")
    page.select_option("#id_endpoint", label=f"{story.alias(mode)}: {story.alias(mode)}, scripted")
    for task in (FIRST, SECOND):
        page.get_by_label(task).check()
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(page.get_by_role("heading", name="Preview")).to_be_visible()
    page.wait_for_load_state("load")  # all boxes are there


def confirmed(page: Page) -> None:
    for box in page.locator("input[name=accept]").all():
        box.check()
    page.get_by_role("button", name="Start this run").click()


def started(story: Story, mode: Mode) -> str:
    """Preview and confirm; returns the run's key."""
    previewed(story, mode)
    confirmed(story.operator)
    expect(story.operator.locator("h2#verdict")).to_be_visible()
    found = re.search(r"/runs/([0-9a-f]{32})/", story.operator.url)
    assert found is not None
    return found[1]


def verdict(page: Page) -> Locator:
    return page.locator("h2#verdict")


def owned(page: Page) -> Locator:
    return page.locator("#owned + .tag")


def shown(word: str) -> Callable[[Page], Locator]:
    return lambda page: page.locator(count(page, word))


def test_the_whole_story(story: Story) -> None:
    sign_in(story.operator, "operator-1")
    sign_in(story.admin, "admin-1")
    registered(story, Mode.POSITIVE)
    a_changed_world_refuses_the_start(story)
    good = counts_move_until_the_verdict(story)
    evidence_is_what_the_page_says(story, good)
    left = a_cancelled_run_leaves_a_network_behind(story)
    bad = a_bad_model_fails(story)
    the_two_are_compared(story, good, bad)
    assert story.real.site.value("select cleanup from runs_run where id = ?", left) == "clean"


def a_changed_world_refuses_the_start(story: Story) -> None:
    runs = "select count(*) from runs_run where created_by_name = 'operator-1'"
    before = story.real.site.value(runs)
    previewed(story, Mode.POSITIVE)
    registered(story, Mode.POSITIVE, timeout_s=90)
    confirmed(story.operator)
    alert = story.operator.get_by_role("alert")
    expect(alert).to_contain_text("Start refused")
    expect(alert).to_contain_text("endpoint.version")
    assert story.real.site.value(runs) == before
    assert violations_if_scripted(story) == []
    alert.get_by_role("link", name="New preview").click()


def violations_if_scripted(story: Story) -> list[str]:
    return violations(story.operator) if story.scripted else []


def counts_move_until_the_verdict(story: Story) -> str:
    second = story.real.stage.hold(story.alias(Mode.POSITIVE), SECOND)
    run = started(story, Mode.POSITIVE)
    story.comes(shown("Ended"), "1")
    expect(shown("Pending")(story.operator)).to_have_text("1")
    expect(verdict(story.operator)).to_have_text("Running")
    expect(story.operator.locator("#panel-trials")).to_contain_text(
        "classified with the other trials when the run ends"
    )
    assert violations_if_scripted(story) == []
    second.set()
    story.comes(verdict, "Passed")
    expect(shown("Passed")(story.operator)).to_have_text("2")
    expect(story.operator.locator("[hx-get]")).to_have_count(0)
    return run


def evidence_is_what_the_page_says(story: Story, run: str) -> None:
    page = story.operator
    page.goto(f"/runs/{run}/")
    page.get_by_role("link", name=re.compile("Show all")).click()
    for name in ("spec.json", "evidence/suite.json", "trials/1/kept/agent/mini-swe-agent.trajectory.json"):
        link = page.get_by_role("link", name=f"Download {name}", exact=True)
        said = page.locator("tr", has=link).locator(".digest code").text_content()
        with page.expect_download() as waiting:
            link.click()
        assert hashlib.sha256(waiting.value.path().read_bytes()).hexdigest() == said
    assert violations_if_scripted(story) == []
    page.goto(f"/runs/{run}/trials/1/trajectory/")
    expect(page.locator("#step-1")).to_be_visible()
    assert violations_if_scripted(story) == []


def a_cancelled_run_leaves_a_network_behind(story: Story) -> str:
    """A stranger's container holds the run's network, so that the cleanup fails, truthfully, until it is gone."""
    registered(story, Mode.HANG)
    run, page, site = started(story, Mode.HANG), story.operator, story.real.site
    wait_until(lambda: (story.alias(Mode.HANG), FIRST) in story.real.stage.heard)
    with stranger_on_its_network(story.real, run):
        page.reload()
        expect(page.locator("#panel-owned")).to_contain_text("the harness and its process group")
        page.get_by_role("button", name=re.compile("Cancel run")).click()
        story.comes(verdict, "Cancelled")
        story.comes(owned, "failed")
        expect(page.locator("#panel-owned")).to_contain_text("the network is in use by")
        assert violations_if_scripted(story) == []
        attempts = site.value("select cleanup_attempts from runs_run where id = ?", run)
        retried_in_the_admin(story, run)
        wait_until(lambda: site.value("select cleanup_attempts from runs_run where id = ?", run) > attempts)
        assert site.value("select cleanup from runs_run where id = ?", run) == "failed"
    retried_in_the_admin(story, run)
    story.comes_after_loading(owned, "clean")  # the page of a run that has ended does not poll
    expect(verdict(page)).to_have_text("Cancelled")
    assert site.value("select count(*) from runs_auditentry where kind = 'cleanup' and run_id = ?", run) >= 1
    return run


def retried_in_the_admin(story: Story, run: str) -> None:
    page = story.admin
    page.goto(f"/admin/runs/run/?q={run}")
    page.locator("input.action-select").first.check()
    page.locator("select[name=action]").select_option("retry_cleanup")
    page.get_by_role("button", name=re.compile("Go|Run")).first.click()
    expect(page.locator(".messagelist")).to_contain_text(re.compile("requested|already clean"))


@contextmanager
def stranger_on_its_network(real: RealSite, run: str) -> Iterator[None]:
    api: Any = connect(30)
    query = "select resource_id from runs_ownedresource where run_id = ? and kind = 'network' order by id"
    wait_until(lambda: len(real.site.values(query, run)) > 0)
    network = real.site.values(query, run)[0]
    image = real.site.value("select image_id from runs_imagelock where role = 'agent' and current")
    body = {"Image": image, "Entrypoint": ["sleep"], "Cmd": ["300"], "HostConfig": {"NetworkMode": network}}
    made = api.create_container_from_config(body)["Id"]
    try:
        api.start(made)
        yield
    finally:
        api.remove_container(made, force=True)
        api.close()


def a_bad_model_fails(story: Story) -> str:
    registered(story, Mode.NEGATIVE)
    run = started(story, Mode.NEGATIVE)
    story.comes(verdict, "Failed")
    expect(shown("Failed")(story.operator)).to_have_text("2")
    return run


def the_two_are_compared(story: Story, good: str, bad: str) -> None:
    page = story.operator
    page.goto(f"/runs/{bad}/")
    page.get_by_role("link", name="Compare").last.click()
    page.get_by_label("Baseline").select_option(good)
    page.get_by_label("Candidate").select_option(bad)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#base")).to_contain_text("Passed")
    table = page.locator("table.cards").last
    expect(table).to_contain_text("Regressed")
    expect(table).to_contain_text(FIRST)
    expect(table).to_contain_text(SECOND)
    assert violations_if_scripted(story) == []
