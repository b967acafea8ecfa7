"""A run is found by the short id that pages show, by everybody who may see runs, and by nobody else."""

import re
from uuid import UUID

import pytest
from django.test import Client

from runs.models import Run
from tests.pages.conftest import Browser, signed_in
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, make_run, person
from tests.pages.test_access import ROLES

BELOW = ("", "live/", "trials/1/", "trials/1/live/", "trials/1/trajectory/", "evidence/", "evidence/archive/")
TWINS = [UUID("0f3a9c21" + rest * 24) for rest in "01"]


@pytest.fixture
def twins(site: Site) -> list[Run]:
    """Two runs whose ids begin alike."""
    made = []
    for pk in TWINS:
        twin = make_run(site, "passed")
        twin.pk = pk
        twin._state.adding = True
        twin.save()
        made.append(twin)
    return made


@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("who", ROLES)
def test_the_short_id_leads_to_the_same_page_below_the_whole_one(site: Site, who: str, below: str) -> None:
    run = make_run(site, "passed")
    for key in (run.key[:8], run.key[:31], run.key[:12].upper(), str(run.pk), run.key.upper()):
        response = signed_in(site, who).get(f"/runs/{key}/{below}?from=51&log=all")
        if key == run.key:  # of digits alone
            continue
        assert (response.status_code, response["Location"]) == (302, f"/runs/{run.key}/{below}?from=51&log=all")


def test_where_it_leads_is_there(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    keep(run)
    for below in BELOW:
        response = browse("operator").get(f"/runs/{run.key[:8]}/{below}", follow=True)
        assert (below, response.status_code) == (below, 200)
    assert browse("operator").get(f"/runs/{run.key[:8]}", follow=True).status_code == 200


@pytest.mark.parametrize("below", BELOW)
def test_a_stranger_learns_nothing(site: Site, client: Client, below: str) -> None:
    run = make_run(site, "passed")
    there, nowhere = f"/runs/{run.key[:8]}/{below}", f"/runs/{'9' * 8}/{below}"
    for path in (there, nowhere):
        response = client.get(path)
        assert (response.status_code, response["Location"]) == (302, f"/sign-in/?next={path}")
    newcomer = person("newcomer")
    client.force_login(newcomer)
    refused = [client.get(path) for path in (there, nowhere)]
    assert [response.status_code for response in refused] == [403, 403]
    assert len({re.sub(rb'nonce="[^"]*"', b"", response.content) for response in refused}) == 1


def test_nothing_is_done_at_a_short_address(site: Site, browse: Browser) -> None:
    run = make_run(site, "running")
    assert browse("operator").post(f"/runs/{run.key[:8]}/cancel/").status_code == 405
    run.refresh_from_db()
    assert run.cancel_requested_at is None


@pytest.mark.parametrize("key", ["9" * 8, "9" * 31, "abc", "0f3a9c2", "0f3a9c2g", "0f3a9c2-1", "f" * 33, "-" * 8])
def test_what_begins_no_id_is_not_found(site: Site, browse: Browser, key: str) -> None:
    make_run(site, "passed")
    response = browse("operator").get(f"/runs/{key}/")
    assert response.status_code == 404 and "start from the overview" in response.content.decode()


def test_of_several_runs_one_is_chosen(twins: list[Run], browse: Browser) -> None:
    response = browse("viewer").get("/runs/0F3A9C21/trials/1/?from=51")
    text = response.content.decode()
    assert response.status_code == 300 and "Several runs begin with" in text
    for run in twins:
        assert f'href="/runs/{run.key}/trials/1/?from=51"' in text and f">{run.key}</a>" in text
    assert browse("viewer").get("/runs/0f3a9c211/")["Location"] == f"/runs/{twins[1].key}/"


@pytest.mark.parametrize("who", ["anonymous", "newcomer"])
def test_the_choice_is_for_those_who_may_see_runs(twins: list[Run], client: Client, who: str) -> None:
    if who == "newcomer":
        client.force_login(person("newcomer"))
    response = client.get("/runs/0f3a9c21/")
    assert response.status_code == (302 if who == "anonymous" else 403)
    assert twins[0].key not in response.content.decode() + response.get("Location", "")


@pytest.mark.parametrize("below", ["/evil.example/", "%2e%2e/%2e%2e/evil", "@evil.example", "?next=//evil.example"])
def test_the_address_below_cannot_lead_away(site: Site, browse: Browser, below: str) -> None:
    run = make_run(site, "passed")
    response = browse("operator").get(f"/runs/{run.key[:8]}/{below}")
    assert response["Location"].startswith(f"/runs/{run.key}/")


def test_an_address_of_several_lines_is_none(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    response = browse("operator").get(f"/runs/{run.key[:8]}/a%0d%0aSet-Cookie: x=1")
    assert response.status_code == 404 and "Set-Cookie" not in response


def test_other_questions_of_an_address_take_the_short_id_too(site: Site, browse: Browser) -> None:
    runs = [make_run(site, "passed") for _ in range(2)]
    client = browse("operator")
    shown = client.get(f"/runs/compare/?baseline={runs[0].key[:8]}&candidate={runs[1].key[:8]}")
    assert shown.status_code == 200 and f"/runs/{runs[0].key}/" in shown.content.decode()
    assert client.get(f"/runs/new/?like={runs[0].key[:8]}").status_code == 200
    assert client.get("/runs/compare/?baseline=zzz&candidate=zzz").status_code == 404
