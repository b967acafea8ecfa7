"""Lists find, page and stay as cheap on the last page as on the first."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from runs.models import Endpoint, Profile, Run, TaskBundle
from tests.pages.conftest import Browser, signed_in
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, make_run, person
from tests.pages.runs.test_run_page import plain


def shown(client: Client, query: str = "") -> list[str]:
    html = client.get(f"/runs/{query}").content.decode()
    return re.findall(r'class="name mono" href="/runs/([0-9a-f]{32})/"', html)


@pytest.fixture
def many(site: Site) -> list[Run]:
    """60 runs, newest first, some at the same moment."""
    now = timezone.now()
    runs = [make_run(site, "queued", at=now - timedelta(minutes=n // 2), name=f"run {n}") for n in range(60)]
    return list(Run.objects.filter(pk__in=[run.pk for run in runs]))


def test_walking_older_shows_every_run_exactly_once(many: list[Run], browse: Browser) -> None:
    client, seen, query = browse("viewer"), [], ""
    for _ in range(10):
        seen += shown(client, query)
        html = client.get(f"/runs/{query}").content.decode()
        older = re.search(r'rel="next" href="(\?[^"]+)"', html)
        if older is None:
            break
        query = older[1]
    assert seen == [run.key for run in many]


def test_walking_newer_leads_back(many: list[Run], browse: Browser) -> None:
    client = browse("viewer")
    second = shown(client, f"?before={many[24].key}")
    assert second == [run.key for run in many[25:50]]
    assert shown(client, f"?after={second[0]}") == [run.key for run in many[:25]]


@pytest.mark.parametrize("query", ["?before=zzz", "?before=" + "0" * 32, "?after=", "?before=%00"])
def test_a_cursor_that_is_none_shows_the_newest(many: list[Run], browse: Browser, query: str) -> None:
    assert shown(browse("viewer"), query)[0] == many[0].key


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("?verdict=passed", {"passed"}),
        ("?verdict=error", {"error", "broken"}),
        ("?state=running", {"running"}),
        ("?state=queued", {"queued"}),
        ("?state=ended&cleanup=failed", {"error"}),
        ("?who=operator-2", set()),
        ("?verdict=passed&state=queued", set()),
    ],
)
def test_filters_combine(full: Site, query: str, kinds: set[str]) -> None:
    found = set(shown(signed_in(full, "viewer"), query))
    assert found == {full.runs[kind].key for kind in kinds}


@pytest.mark.parametrize("query", ["?verdict=nonsense", "?who=nobody", "?profile=%00", "?state=<script>"])
def test_a_filter_that_is_none_shows_nothing_and_says_so(full: Site, query: str) -> None:
    html = signed_in(full, "viewer").get(f"/runs/{query}").content.decode()
    assert "No run matches these filters." in html
    assert "<script>" not in html.replace("<script src", "")


def test_an_empty_list_says_what_a_run_is(site: Site, browse: Browser) -> None:
    assert "No run yet." in browse("operator").get("/runs/").content.decode()


@pytest.mark.parametrize("path", ["/runs/", "/", "/workers/worker-1/", "/endpoints/serving-a/1/"])
def test_a_list_costs_the_same_with_many_runs(
    site: Site, browse: Browser, django_assert_max_num_queries: DjangoAssertNumQueries, path: str
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = browse("viewer")
    make_run(site, "passed", name="one")
    client.get(path)
    with CaptureQueriesContext(connection) as few:
        client.get(path)
    for n in range(30):
        make_run(site, "passed", name=f"more {n}")
    with CaptureQueriesContext(connection) as more:
        client.get(path)
    assert len(more) == len(few)


def test_the_overview_counts_what_runs_and_what_needs_somebody(full: Site) -> None:
    text = plain(signed_in(full, "operator").get("/").content.decode())
    assert "1 running, 1 queued" in text and "Task 2 of 3, with coder-medium on worker-1." in text
    assert f"Queued {full.runs['queued'].key[:8]} environment-smoke with coder-medium, by operator-1 at" in text
    assert "left 2 resources on worker-1" in text


def test_the_overview_asks_for_what_changed_and_is_told_when_nothing_did(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    first = client.get("/live/")
    assert client.get("/live/", headers={"If-None-Match": first["ETag"]}).status_code == 304
    make_run(site, "error")
    again = client.get("/live/", headers={"If-None-Match": first["ETag"]})
    assert "left 2 resources" in plain(again.content.decode())


@pytest.mark.parametrize(("days", "said"), [(6, True), (8, False)])
def test_evidence_that_holds_a_secret_needs_somebody_for_a_week(
    site: Site, browse: Browser, days: int, said: bool
) -> None:
    run, secret = make_run(site, "error", at=timezone.now() - timedelta(days=days)), "sk-the-value-that-leaked"
    keep(run, {f"trials/1/kept/artifacts/{secret}.txt": b"x"}, (secret,))
    text = plain(browse("viewer").get("/").content.decode())
    assert (f"Evidence of run {run.key[:8]} is quarantined" in text) is ("Replace the credential" in text) is said
    assert secret not in text


def test_what_needs_somebody_is_counted_beyond_what_is_named(site: Site, browse: Browser) -> None:
    for number in range(9):
        make_run(site, "error", name=f"left {number}")
    text = plain(browse("viewer").get("/").content.decode())
    assert text.count("left 2 resources on worker-1") == 6 and "3 more runs with a failed cleanup" in text


def test_a_quiet_site_says_that_nothing_needs_attention(site: Site, browse: Browser) -> None:
    text = plain(browse("viewer").get("/").content.decode())
    assert "Nothing needs attention. No cleanup has failed" in text
    assert "No run yet." in text


def test_rates_of_a_model_are_taken_over_what_was_evaluated(site: Site, browse: Browser) -> None:
    make_run(site, "broken", name="a")
    text = plain(browse("viewer").get("/").content.decode())
    assert "none graded" in text and "no fully graded run" in text
    make_run(site, "error", name="b")
    text = plain(browse("viewer").get("/").content.decode())
    assert "1 of 2 passed" in text
    assert "2 of 6 graded" in text


def test_a_fresh_site_teaches_on_every_list(db: None, client: Client) -> None:
    client.force_login(person("admin-9", "admin"))
    for path in ("/profiles/", "/bundles/", "/endpoints/", "/workers/"):
        assert "manage.py" in client.get(path).content.decode()
    assert "Two runs are needed." in client.get("/runs/compare/").content.decode()


HOSTILE = "<script>alert(1)</script>\"'><svg onload=x>\u202egpj\x1b[31m"


def test_hostile_names_are_inert_everywhere(site: Site, browse: Browser) -> None:
    run = make_run(site, "queued")
    run.trials.all().delete()
    run.trials.create(ordinal=1, task_name=HOSTILE, task_checksum="0" * 64)
    Run.objects.filter(pk=run.pk).update(count_requested=1)
    Profile.objects.create(name=HOSTILE[:60], schema="x", description=HOSTILE, document="{}", source=b"{}")
    Endpoint.objects.create(
        name="odd", version=1, record="{}", base_url=HOSTILE, host=HOSTILE, model=HOSTILE, route="direct"
    )
    TaskBundle.objects.create(name="odd", revision=1, manifest="[]", manifest_sha256="0" * 64, packaged=HOSTILE[:64])
    client = browse("admin")
    for path in (
        "/",
        "/runs/",
        f"/runs/{run.key}/",
        f"/runs/{run.key}/trials/1/",
        "/profiles/",
        "/endpoints/",
        "/endpoints/odd/1/",
        "/bundles/",
        "/bundles/odd/1/",
        f"/profiles/{Profile.objects.latest('id').pk}/",
        "/runs/new/",
    ):
        html = client.get(path).content.decode()
        assert "<script>alert" not in html, path
        assert "<svg onload" not in html, path
    for path in (f"/runs/{run.key}/", f"/runs/{run.key}/trials/1/"):
        assert not set(client.get(path).content.decode()) & set("\u202e\x1b")


def test_no_page_holds_inline_script_or_style(full: Site) -> None:
    client = signed_in(full, "admin")
    for path in ("/", "/runs/", f"/runs/{full.runs['running'].key}/", f"/runs/{full.runs['error'].key}/trials/3/"):
        response = client.get(path)
        html = response.content.decode()
        assert not re.search(r"\son\w+=", html)
        assert not re.search(r"\sstyle=", html)
        assert "<style" not in html
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", html))
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_the_two_newest_runs_are_offered_and_never_one_twice(site: Site, browse: Browser) -> None:
    older, newer = make_run(site, "passed"), make_run(site, "failed")
    text = browse("viewer").get("/runs/compare/").content.decode()
    baseline, candidate = text.split('name="candidate"')
    assert f'value="{older.key}" selected' in baseline and f'value="{newer.key}" selected' in candidate
    assert text.count(" selected") == 2
