"""Takes pictures of every page: ``python -m tests.browser.screenshots DIR`` (by ``script/screenshots DIR``).

On a scratch site with one run of every kind; desktop and phone, light and dark, and what is printed of some.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

WIDTHS = {"desktop": 1440, "phone": 390}
SCHEMES = ("light", "dark")
# Forms whose answers are refused: address, and what is answered by a field's name.
REFUSED = {
    "new-refused": ("/runs/new/", {"max_steps": "9999", "max_trial_seconds": "7"}),
    "password-refused": ("/account/password/", {"old_password": "wrong", "new_password1": "a", "new_password2": "b"}),
    "admin-endpoint-refused": (
        "/admin/runs/endpoint/add/",
        {"name": "serving-c", "base_url": "http://127.0.0.1:8000/v1?key=1", "model": "two words", "headers": "X-Team"},
    ),
}
# An endpoint whose record says all that a record can say.
WHOLE = {"base_url": "https://models.example/v1", "ca_file": "/etc/benchsite/model-ca.pem"}
PRINTED = ("run-error", "trial-error", "preview", "compare", "evidence")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="benchsite-pictures-") as data:
        os.environ["BENCHSITE_DATA"] = data
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchsite.settings"
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        pages = _fill()
        with _served() as url:
            taken = _take(url, pages, folder)
    print(f"{taken} pictures in {folder}")


def _fill() -> dict[str, str]:
    """A migrated database with believable rows; returns the pages' addresses by name."""
    import django

    django.setup()
    from django.core.management import call_command

    from runs.models import Worker
    from runs.services import endpoint_switch, lifecycle, previewing, registry
    from tests.browser.conftest import admin_paths, paths
    from tests.documents import samples
    from tests.pages import factories

    call_command("migrate", verbosity=0)
    site = factories.full_site()
    pages = paths(site) | admin_paths(site)
    declared = factories.make_run(site, "error")
    lifecycle.declare_resolved(declared.pk, user=site.admin, reason="The host's disk was replaced; nothing of it runs.")
    made = previewing.make_preview(user=site.admin, choice=site.choice)
    site.worker.image_locks.filter(role="verifier").update(current=False)
    blocked = previewing.make_preview(user=site.admin, choice=site.choice)
    stopped = factories.endpoint("serving-c", "coder-large")
    endpoint_switch.stop(user=site.operator, name=stopped.name, reason="Answers as coder-small since this morning")
    whole = registry.register_endpoint(samples.endpoint_v2() | WHOLE, user=site.admin)
    mistaken = Worker.objects.create(name="wroker-1")
    unreported = previewing.make_preview(user=site.admin, choice=replace(site.choice, worker=mistaken))
    previews = {"preview": made, "preview-blocked": blocked, "preview-unreported": unreported}
    found = {name: f"/runs/previews/{one.pk.hex}/" for name, one in previews.items()}
    found |= {"worker-mistaken": "/workers/wroker-1/", "worker-remove": "/workers/wroker-1/remove/"}
    found["endpoint-stopped"] = f"/endpoints/{stopped.name}/{stopped.version}/"
    found["endpoint-whole"] = f"/endpoints/{whole.name}/{whole.version}/"
    found["admin-endpoint-whole"] = f"/admin/runs/endpoint/{whole.pk}/change/"
    return pages | found | {"run-declared": f"/runs/{declared.key}/"}


@contextmanager
def _served() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, "--no-ws", "--no-access-log", "benchsite.wsgi:application"])
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{url}/sign-in/")
        yield url
    finally:
        server.terminate()
        server.wait(20)


def _wait(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _beat() -> None:
    """Nothing falls silent while pictures are taken, but the host that is shown as silent."""
    from django.utils import timezone

    from runs.models import ACTIVE_STATES, Run, Worker

    now = timezone.now()
    Worker.objects.filter(pid__isnull=False).exclude(name="worker-2").update(heartbeat_at=now)
    Run.objects.filter(state__in=ACTIVE_STATES).exclude(worker__name="worker-2").update(heartbeat_at=now)


def _take(url: str, pages: dict[str, str], folder: Path) -> int:
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import ARGUMENTS, CHROMIUM, sign_in

    taken = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for device, width in WIDTHS.items():
            for scheme in SCHEMES:
                context = browser.new_context(
                    base_url=url, viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto("/sign-in/")
                page.screenshot(path=folder / f"sign-in-{device}-{scheme}.png")
                sign_in(page, "admin-1")
                for name, path in pages.items():
                    _beat()
                    page.goto(path)
                    page.screenshot(path=folder / f"{name}-{device}-{scheme}.png", full_page=True)
                    taken += 1
                for name, (path, answers) in REFUSED.items():
                    page.goto(path)
                    send(page, answers)
                    page.screenshot(path=folder / f"{name}-{device}-{scheme}.png", full_page=True)
                    taken += 1
                context.close()
        taken += _print(browser, url, pages, folder)
        browser.close()
    return taken


def send(page: Any, answers: dict[str, str]) -> None:
    """Answer a form of the page that is open, and send it as a person would."""
    for name, text in answers.items():
        page.fill(f"main [name={name}]", text)
    with page.expect_navigation():
        page.press(f"main [name={next(iter(answers))}]", "Enter")


def _print(browser: Any, url: str, pages: dict[str, str], folder: Path) -> int:
    """As a printer shows them, at the width of a sheet of paper."""
    from tests.browser.conftest import sign_in

    context = browser.new_context(base_url=url, viewport={"width": 700, "height": 990})
    page = context.new_page()
    sign_in(page, "admin-1")
    page.emulate_media(media="print")
    for name in PRINTED:
        page.goto(pages[name])
        page.screenshot(path=folder / f"{name}-print.png", full_page=True)
    context.close()
    return len(PRINTED)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: script/screenshots DIR")
    main(Path(sys.argv[1]))
