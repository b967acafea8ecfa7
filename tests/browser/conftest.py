"""A real Chromium against a live site. Skipped with a reason where there is no Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from runs.models import TaskBundle
from tests.pages import factories
from tests.pages.factories import PASSWORD, Site

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
# The worker, the engine and the browser work on the same cores; what comes early is not waited for.
PATIENCE_MS = 90_000
expect.set_options(timeout=PATIENCE_MS)
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")  # playwright keeps a loop running, in which no other module could run its own
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def site(transactional_db: None) -> Site:
    return factories.site()


@pytest.fixture
def full(transactional_db: None) -> Site:
    return factories.full_site()


@pytest.fixture
def context(chromium: Browser, live_server: LiveServer) -> Iterator[BrowserContext]:
    opened = chromium.new_context(base_url=live_server.url, viewport={"width": 1440, "height": 900})
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def sign_in(page: Page, name: str) -> None:
    page.goto("/sign-in/")
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.click("button.first")
    page.wait_for_url(lambda url: "/sign-in/" not in url)  # which also ends in a slash


def paths(site: Site) -> dict[str, str]:
    """Every page of the site on believable data, by a short name."""
    run = {kind: site.runs[kind].key for kind in site.runs}
    text = site.runs["error"].artifacts.filter(kind="harness_log").first()
    return {
        "overview": "/",
        "runs": "/runs/",
        "runs-filtered": "/runs/?verdict=passed&state=running",
        "new": "/runs/new/",
        **{f"run-{kind}": f"/runs/{key}/" for kind, key in run.items()},
        "trial-passed": f"/runs/{run['passed']}/trials/1/",
        "trial-error": f"/runs/{run['error']}/trials/3/",
        "trial-running": f"/runs/{run['running']}/trials/2/",
        "trial-cancelled": f"/runs/{run['cancelled']}/trials/2/",
        "trial-deadline": f"/runs/{run['incomplete']}/trials/2/",
        "transcript": f"/runs/{run['passed']}/trials/1/trajectory/",
        "trajectory": f"/runs/{run['error']}/trials/2/trajectory/?q=ledger",
        "trajectory-none": f"/runs/{run['incomplete']}/trials/2/trajectory/",
        "evidence": f"/runs/{run['error']}/evidence/",
        "text": f"/evidence/{text.key}/text/",
        "compare": f"/runs/compare/?baseline={run['passed']}&candidate={run['error']}&show=all",
        "compare-choose": "/runs/compare/",
        "profiles": "/profiles/",
        "profile": f"/profiles/{site.profile.pk}/",
        "bundles": "/bundles/",
        "bundle": f"/bundles/{site.bundle.name}/{site.bundle.revision + 1}/",
        "endpoints": "/endpoints/",
        "endpoint": f"/endpoints/{site.endpoint.name}/{site.endpoint.version}/",
        "workers": "/workers/",
        "signing-keys": "/signing-keys/",
        "worker": f"/workers/{site.worker.name}/",
        "worker-silent": "/workers/worker-2/",
        "worker-lost": "/workers/worker-2/lost/",
        "account": "/account/",
        "api": "/api/v1/docs",
        "password": "/account/password/",
        "missing": "/runs/" + "0" * 32 + "/",
        **experiment_paths(site),
    }


def experiment_paths(site: Site) -> dict[str, str]:
    """The pages of experiments."""
    made = site.experiments
    trial = made["alpha"].trials.get(reported_outcome="errored", attempt=1)
    chosen = "&".join(f"e={made[name].key}" for name in ("alpha", "beta", "once"))
    return {
        "experiments": "/experiments/",
        "experiment": f"/experiments/{made['alpha'].key}/",
        "experiment-trial": f"/experiments/{made['alpha'].key}/trials/{trial.pk}/",
        "experiments-compare": f"/experiments/compare/?{chosen}",
        "experiments-choose": f"/experiments/compare/?e={made['alpha'].key}",
        "suite": f"/suites/{made['alpha'].suite_id}/",
        "case": f"/cases/{trial.case_id}/",
    }


def admin_paths(site: Site) -> dict[str, str]:
    """The admin's pages that people work with."""
    return {
        "admin": "/admin/",
        "admin-runs": "/admin/runs/run/",
        "admin-run": f"/admin/runs/run/{site.runs['error'].pk}/change/",
        "admin-trials": "/admin/runs/trial/",
        "admin-resources": "/admin/runs/ownedresource/?left=yes",
        "admin-endpoint-new": "/admin/runs/endpoint/add/",
        "admin-bundles": "/admin/runs/taskbundle/",
        "admin-bundle": f"/admin/runs/taskbundle/{TaskBundle.objects.latest('revision').pk}/change/",
        "admin-endpoint": f"/admin/runs/endpoint/{site.endpoint.pk}/change/",
        "admin-workers": "/admin/runs/worker/",
        "admin-audit": "/admin/runs/auditentry/",
        "admin-tokens": "/admin/runs/apitoken/",
        "admin-signing-keys": "/admin/evidence/signingkey/",
        "admin-people": "/admin/auth/user/",
        "admin-person": f"/admin/auth/user/{site.operator.pk}/change/",
        "admin-roles": "/admin/auth/group/",
    }


@pytest.fixture(autouse=True)
def _no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests move runs themselves, as a worker would; nothing is put into a queue."""
    monkeypatch.setattr("runs.services.queue.put", lambda *_, **__: None)
    monkeypatch.setattr("runs.services.queue.put_cleanup", lambda *_, **__: None)
