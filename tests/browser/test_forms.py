"""A form whose answers are refused, in a real browser: what is wrong is read first, and leads to its field."""

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from runs.models import Worker
from runs.services import previewing
from tests.browser.conftest import sign_in
from tests.browser.screenshots import REFUSED, send
from tests.browser.test_every_page import violations
from tests.pages.factories import Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("scripts", [True, False])
def test_the_focus_goes_to_what_is_wrong_and_from_there_to_the_field(
    site: Site, chromium: Browser, live_server: LiveServer, scripts: bool
) -> None:
    context = chromium.new_context(base_url=live_server.url, java_script_enabled=scripts)
    page = context.new_page()
    sign_in(page, "admin-1")
    for path, answers in REFUSED.values():
        page.goto(path)
        send(page, answers)
        expect(page.get_by_role("alert")).to_be_focused()
        link = page.get_by_role("alert").get_by_role("link").first
        field = page.locator(str(link.get_attribute("href")))
        link.click()
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
    context.close()


def test_a_refused_form_and_a_blocked_preview_have_no_accessibility_violation(site: Site, page: Page) -> None:
    mistaken = Worker.objects.create(name="wroker-1")
    blocked = previewing.make_preview(user=site.admin, choice=replace(site.choice, worker=mistaken))
    sign_in(page, "admin-1")
    found = {}
    for name, (path, answers) in REFUSED.items():
        page.goto(path)
        send(page, answers)
        found[name] = violations(page)
    for path in (f"/runs/previews/{blocked.pk.hex}/", "/workers/wroker-1/", "/workers/wroker-1/remove/"):
        page.goto(path)
        found[path] = violations(page)
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_a_start_that_was_not_accepted_leads_to_the_box(site: Site, page: Page) -> None:
    made = previewing.make_preview(user=site.admin, choice=site.choice)
    sign_in(page, "admin-1")
    page.goto(f"/runs/previews/{made.pk.hex}/")
    page.eval_on_selector_all("input[name=accept]", "boxes => boxes.forEach(box => box.required = false)")
    page.get_by_role("button", name="Start this run").click()
    expect(page.get_by_role("alert")).to_be_focused()
    page.get_by_role("link", name="I accept that core files are not prevented").click()
    expect(page.locator("#accept-1")).to_be_focused()
    assert violations(page) == []
