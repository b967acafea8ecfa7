"""The connection panel of an endpoint's page: who may ask, what is shown, and when it stops asking for itself."""

from typing import Any

import pytest
from django.test import Client

from runs.checks.readiness import Answer, judge
from runs.models import Endpoint, EndpointTest
from runs.services.endpoint_testing import finish, not_made
from tests.pages.conftest import Browser
from tests.pages.factories import Site

BUTTON = "Test connection"
READY = judge(Answer("ok", None, 200), has_credential=True)
ABSENT = judge(Answer("upstream_error", "status", 404, "no such model"), has_credential=True)


def page(client: Client, endpoint: Endpoint) -> str:
    return client.get(f"/endpoints/{endpoint.name}/{endpoint.version}/").content.decode()


def panel(client: Client, endpoint: Endpoint, **headers: str) -> Any:
    return client.get(f"/endpoints/{endpoint.name}/{endpoint.version}/connection/", headers=headers)


def ask(client: Client, site: Site) -> Any:
    place = f"/endpoints/{site.endpoint.name}/{site.endpoint.version}/test/"
    return client.post(place, {"worker": site.worker.name}, follow=True)


@pytest.mark.parametrize(
    ("who", "shown"), [("operator", True), ("admin", True), ("viewer", False), ("reviewer", False)]
)
def test_the_button_is_there_for_those_who_may_press_it(site: Site, browse: Browser, who: str, shown: bool) -> None:
    text = page(browse(who), site.endpoint)
    assert "Never tested." in text and (BUTTON in text) is shown


def test_without_javascript_pressing_it_leads_back_to_the_page_which_says_so(
    site: Site, browse: Browser, jobs: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        response = ask(browse("operator"), site)
    text = response.content.decode()
    assert "Connection test requested from" in text and "Waiting for the worker" in text
    assert jobs == [("endpoint test", EndpointTest.objects.get().pk, site.worker.name)]


def test_pressing_it_twice_asks_once(site: Site, browse: Browser) -> None:
    ask(browse("operator"), site)
    assert "is already testing this connection" in ask(browse("other_operator"), site).content.decode()
    assert EndpointTest.objects.count() == 1


def test_the_panel_asks_for_itself_until_the_test_is_done(site: Site, browse: Browser) -> None:
    client = browse("operator")
    assert "hx-get" not in panel(client, site.endpoint).content.decode()
    ask(client, site)
    live = panel(client, site.endpoint)
    assert 'hx-trigger="every 2s"' in live.content.decode()
    assert panel(client, site.endpoint, if_none_match=live["ETag"]).status_code == 304
    finish(EndpointTest.objects.get(), READY, seconds=0.4)
    done = panel(client, site.endpoint, if_none_match=live["ETag"])
    assert done.status_code == 200 and "hx-get" not in done.content.decode()


def test_each_check_is_shown_with_its_remedy_and_the_age_of_the_test(site: Site, browse: Browser) -> None:
    ask(browse("operator"), site)
    finish(EndpointTest.objects.get(), ABSENT, seconds=0.4)
    text = page(browse("viewer"), site.endpoint)
    for words in ("Not ready", "<time", "The endpoint does not serve the model of the record.", "load the model there"):
        assert words in text


def test_a_test_that_was_not_made_says_why(site: Site, browse: Browser) -> None:
    ask(browse("operator"), site)
    not_made(EndpointTest.objects.get().pk, "engine_unreachable", "The container engine cannot be reached.")
    text = page(browse("operator"), site.endpoint)
    assert "Not made" in text and "The container engine cannot be reached." in text


def test_a_version_that_was_replaced_has_no_button(site: Site, browse: Browser) -> None:
    Endpoint.objects.filter(pk=site.endpoint.pk).update(active=False)
    assert BUTTON not in page(browse("operator"), site.endpoint)


def test_the_admin_tests_from_every_running_worker(site: Site, browse: Browser) -> None:
    chosen = {"action": "test_connection", "_selected_action": [site.endpoint.pk]}
    client = browse("admin")
    site.admin.is_staff = True
    site.admin.save()
    response = client.post("/admin/runs/endpoint/", chosen, follow=True)
    assert response.status_code == 200
    assert [test.worker.name for test in EndpointTest.objects.all()] == [site.worker.name]
