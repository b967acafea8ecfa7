"""What an agent, a model or a task writes is read as text in a real browser: nothing runs, nothing is fetched."""

import json

import pytest
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from runs.models import Run
from runs.services.runlog import Line, append_log
from tests.browser.conftest import sign_in
from tests.pages.evidence_files import keep, native_trajectory
from tests.pages.factories import Site, make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MARKUP = (
    "</pre></td></textarea></title><script>window.ran=1;alert(1)</script>"
    '<img src=http://192.0.2.1/a onerror="window.ran=1;alert(2)"><svg onload=alert(3)><iframe src=javascript:alert(4)>'
    '"\'><a href="javascript:alert(5)" autofocus onfocus=alert(6)>x</a>'
    "<link rel=stylesheet href=//192.0.2.1/b>{{ 7|add:7 }}"
)
CONTROL = "\x1b[2J\x1b]8;;http://192.0.2.1/\x07link\x1b]8;;\x07\u202egpj.exe\u2066\r\x08"
LONG = "x" * 1_000_000
EVIL = MARKUP + CONTROL
PAGE = b"<!doctype html><script>alert(7)</script><body onload=alert(8)><img src=http://192.0.2.1/c>"
PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(9)'><script>alert(10)</script></svg>"


@pytest.fixture
def hostile(site: Site) -> Run:
    """A run whose task, log, trajectory, verifier's output, reward and file names are all hostile."""
    run = make_run(site, "passed")
    run.trials.filter(ordinal=1).update(task_name=EVIL[:255])
    append_log(run.pk, [Line(source="harness", text=EVIL), Line(source="harness", text=EVIL + "\0" + LONG)])
    trajectory = native_trajectory(4)
    for message in trajectory["messages"]:
        message["content"] = EVIL + "\0" + LONG[:200_000]
    trajectory["messages"][2]["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": EVIL})
    base = "trials/1/kept"
    name = "".join(character for character in EVIL if character not in "/\0")[:120]
    keep(
        run,
        {
            f"{base}/agent/mini-swe-agent.trajectory.json": json.dumps(trajectory).encode(),
            f"{base}/verifier/test-stdout.txt": (EVIL + "\0" + LONG).encode(),
            f"{base}/verifier/reward.json": EVIL.encode(),
            f"{base}/artifacts/index.html": PAGE,
            f"{base}/artifacts/picture.svg": PICTURE,
            f"{base}/artifacts/{name}": EVIL.encode(),
        },
    )
    return run


def test_nothing_of_it_runs_or_leaves(site: Site, hostile: Run, page: Page, live_server: LiveServer) -> None:
    ran: list[str] = []
    left: list[str] = []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: ran.append(str(error)))
    page.on(
        "request", lambda request: left.append(request.url) if not request.url.startswith(live_server.url) else None
    )
    sign_in(page, "operator-1")
    for path in (
        "/",
        "/runs/",
        f"/runs/{hostile.key}/",
        f"/runs/{hostile.key}/?log=all",
        f"/runs/{hostile.key}/trials/1/",
        f"/runs/{hostile.key}/trials/1/trajectory/?q=script",
        f"/runs/{hostile.key}/evidence/",
        f"/runs/compare/?baseline={hostile.key}&candidate={hostile.key}&show=all",
        *(f"/evidence/{file.key}/text/" for file in hostile.artifacts.filter(trial=1, path__contains="kept/")),
    ):
        response = page.goto(path)
        assert response is not None and response.ok, path
        page.wait_for_load_state("load")
        assert page.evaluate("window.ran") is None, path
        assert page.locator("main script, main img, main iframe, main link, main [onerror], main [onload]").count() == 0
        shown = page.content()
        assert not {"\x1b", "\0", "\u202e", "\u2066", "\x08"} & set(shown), path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert ran == []
    assert [url for url in left if not url.startswith(live_server.url)] == []


def test_it_was_really_shown(site: Site, hostile: Run, page: Page) -> None:
    """Otherwise the test above proves nothing."""
    sign_in(page, "operator-1")
    for path in (
        f"/runs/{hostile.key}/",
        f"/runs/{hostile.key}/trials/1/trajectory/",
        f"/runs/{hostile.key}/evidence/",
    ):
        page.goto(path)
        assert "window.ran=1;alert(1)" in page.locator("main").inner_text(), path


@pytest.mark.parametrize("name", ["index.html", "picture.svg"])
def test_a_page_or_picture_of_the_agents_making_is_only_saved(site: Site, hostile: Run, page: Page, name: str) -> None:
    file = hostile.artifacts.get(path=f"trials/1/kept/artifacts/{name}")
    sign_in(page, "operator-1")
    page.goto(f"/runs/{hostile.key}/evidence/")
    with page.expect_download() as waiting:
        page.get_by_role("link", name=f"Download {file.path}", exact=True).click()
    assert waiting.value.path().read_bytes() in (PAGE, PICTURE)
    assert page.url.endswith("/evidence/")
