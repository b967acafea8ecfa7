"""Every page in a real browser: no accessibility violation, no sideways scroll, no script error, from 320 to 1920."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from runs.services import previewing
from tests.browser.conftest import ARGUMENTS, CHROMIUM, admin_paths, paths, sign_in
from tests.pages.factories import Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
GUIDELINES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
RULES = {"runOnly": [*GUIDELINES["runOnly"], "best-practice"]}
# The narrowest window with tables instead of cards, and the narrowest with the menu beside them.
TABLES_FROM = (1061, 1265)
WIDER = "Math.max(0, ...[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth - box.clientWidth))"


def all_paths(site: Site) -> dict[str, str]:
    made = previewing.make_preview(user=site.admin, choice=site.choice)
    return paths(site) | {"preview": f"/runs/previews/{made.pk.hex}/"}


def violations(page: Page, rules: dict[str, list[str]] = RULES) -> list[str]:
    found = Axe().run(page, options=rules).response["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_no_page_has_an_accessibility_violation(
    full: Site, chromium: Browser, live_server: LiveServer, width: int, scheme: Any
) -> None:
    context = chromium.new_context(
        base_url=live_server.url, viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto("/sign-in/")
    found = {"sign-in": violations(page)}
    sign_in(page, "admin-1")
    for name, path in all_paths(full).items():
        page.goto(path)
        found[name] = violations(page)
    context.close()
    assert {name: broken for name, broken in found.items() if broken} == {}


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_no_page_of_the_admin_has_one(
    full: Site, chromium: Browser, live_server: LiveServer, width: int, scheme: Any
) -> None:
    """Its markup is Django's: held to the guidelines themselves, in this site's colours."""
    context = chromium.new_context(
        base_url=live_server.url, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = context.new_page()
    sign_in(page, "admin-1")
    found = {}
    for name, path in admin_paths(full).items():
        page.goto(path)
        found[name] = violations(page, GUIDELINES)
    context.close()
    assert {name: broken for name, broken in found.items() if broken} == {}


@pytest.mark.parametrize("width", [320, 720, *TABLES_FROM, 1920])
def test_no_page_and_no_table_scrolls_sideways(
    full: Site, chromium: Browser, live_server: LiveServer, width: int
) -> None:
    context = chromium.new_context(base_url=live_server.url, viewport={"width": width, "height": 900})
    page = context.new_page()
    sign_in(page, "admin-1")
    wide = {}
    for name, path in all_paths(full).items():
        page.goto(path)
        found = page.evaluate("document.documentElement.scrollWidth")
        if width in TABLES_FROM:
            found = max(found, page.evaluate(WIDER) + width)
        if found > width:
            wide[name] = found
    context.close()
    assert wide == {}


def test_text_twice_as_large_overlaps_nothing_and_scrolls_nothing_sideways(
    full: Site, chromium: Browser, live_server: LiveServer
) -> None:
    """As somebody has set it in the browser: lines grow with their letters, and what has no room moves below."""
    tight = (
        "[...document.querySelectorAll('body *')].filter(one => !one.closest('svg')).map(getComputedStyle)"
        ".filter(style => parseFloat(style.lineHeight) < parseFloat(style.fontSize)).length"
    )
    browser = chromium.browser_type.launch(
        executable_path=CHROMIUM, args=[*ARGUMENTS, "--blink-settings=defaultFontSize=32"]
    )
    page = browser.new_page(base_url=live_server.url, viewport={"width": 1440, "height": 900})
    sign_in(page, "admin-1")
    found = {}
    for name, path in all_paths(full).items():
        page.goto(path)
        found[name] = (page.evaluate(tight), page.evaluate("document.documentElement.scrollWidth - innerWidth"))
    browser.close()
    assert {name: wrong for name, wrong in found.items() if wrong[0] or wrong[1] > 0} == {}


def test_no_page_breaks_the_content_policy_or_its_scripts(full: Site, page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    sign_in(page, "admin-1")
    for name, path in all_paths(full).items():
        page.goto(path)
        page.wait_for_timeout(50)
        said = [text for text in said if not (name == "missing" and "404" in text)]
        assert (name, said) == (name, [])
