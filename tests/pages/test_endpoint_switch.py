"""The switch on an endpoint's page: offered to who may throw it, and seen by everybody while it is off."""

import pytest

from runs.models import EndpointStop
from tests.pages.conftest import Browser
from tests.pages.factories import Site

STOP, ALLOW, STOPPED = "Stop all traffic", "Allow traffic again", "All traffic stopped"


def place(site: Site, act: str = "") -> str:
    return f"/endpoints/{site.endpoint.name}/{site.endpoint.version}/{act}"


@pytest.mark.parametrize(
    ("who", "stops", "allows"),
    [("operator", True, False), ("admin", True, True), ("viewer", False, False), ("reviewer", False, False)],
)
def test_it_is_offered_to_whoever_may_throw_it(
    site: Site, browse: Browser, who: str, stops: bool, allows: bool
) -> None:
    client = browse(who)
    text = client.get(place(site)).content.decode()
    assert (STOP in text, ALLOW in text, STOPPED in text) == (stops, False, False)
    browse("operator").post(place(site, "stop/"), {"reason": "too <b>dear"})
    text = client.get(place(site)).content.decode()
    assert (STOP in text, ALLOW in text, STOPPED in text) == (False, allows, True)
    assert "too &lt;b&gt;dear" in text and "?endpoint=" not in text and "Test connection" not in text
    assert "stopped</span>" in client.get("/endpoints/").content.decode()


def test_a_reason_that_is_missing_is_asked_for_and_what_was_typed_stays(site: Site, browse: Browser) -> None:
    text = browse("operator").post(place(site, "stop/"), {"reason": "x" * 301}, follow=True).content.decode()
    assert "reason: say in one line" in text and f'value="{"x" * 301}"' in text
    assert not EndpointStop.objects.exists()


def test_an_administrator_allows_it_again(site: Site, browse: Browser) -> None:
    client = browse("admin")
    client.post(place(site, "stop/"), {"reason": "a test"})
    text = client.post(place(site, "allow/"), follow=True).content.decode()
    assert "Allowed again" in text and STOPPED not in text and not EndpointStop.objects.exists()
