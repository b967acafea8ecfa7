"""A site with people, and a browser-like client for each of them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.pages import factories
from tests.pages.factories import Site

type Browser = Callable[[str], Client]


@pytest.fixture
def site(db: None) -> Site:
    return factories.site()


@pytest.fixture
def full(site: Site) -> Site:
    """A site with one run of each kind."""
    for kind in factories.PLANS:
        factories.make_run(site, kind)
    return site


@pytest.fixture
def browse(site: Site) -> Browser:
    """A client that is signed in as ``viewer``, ``operator``, ``other_operator``, ``reviewer``, ``admin`` or nobody."""
    return lambda who: signed_in(site, who)


def signed_in(site: Site, who: str) -> Client:
    client = Client()
    if who != "anonymous":
        client.force_login(getattr(site, who))
    return client


@pytest.fixture(autouse=True)
def _no_queue(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Jobs are noted, not queued: pages must not need a queue, and tests start none."""
    noted: list[Any] = []
    monkeypatch.setattr("runs.services.queue.put", lambda run_id, worker, **_: noted.append(("run", run_id, worker)))
    monkeypatch.setattr(
        "runs.services.queue.put_cleanup", lambda run_id, worker, **_: noted.append(("cleanup", run_id, worker))
    )
    monkeypatch.setattr(
        "runs.services.queue.put_endpoint_test",
        lambda test_id, worker: noted.append(("endpoint test", test_id, worker)),
    )
    return noted


@pytest.fixture
def jobs(_no_queue: list[Any]) -> list[Any]:
    return _no_queue
