"""A reviewer approves exactly what was shown; the admin does nothing that a page would not."""

import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs.models import AuditEntry, Endpoint, EndpointUsage, Profile, Run, TaskBundle
from tests.pages.conftest import Browser, signed_in
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, digest, draft_bundle, make_run
from tests.pages.runs.test_run_page import plain


def approve(client: Client, bundle: TaskBundle, sha256: str = "") -> str:
    path = f"/bundles/{bundle.name}/{bundle.revision}/"
    data = {"manifest_sha256": sha256 or bundle.manifest_sha256, "note": "read every file"}
    return plain(client.post(f"{path}review/", data, follow=True).content.decode())


def test_the_difference_since_the_reviewed_revision_is_shown(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    text = plain(browse("viewer").get(f"/bundles/{draft.name}/{draft.revision}/").content.decode())
    assert f"Changed since revision {site.bundle.revision}" in text
    assert "Merge two configuration files, later values win" in text
    assert digest("changed") in text


def test_an_approval_reviews_the_new_and_retires_the_old(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    assert "is reviewed and can run now" in approve(browse("reviewer"), draft)
    states = dict(TaskBundle.objects.values_list("revision", "status"))
    assert states == {site.bundle.revision: "retired", draft.revision: "reviewed"}
    assert TaskBundle.objects.get(revision=draft.revision).review_note == "read every file"


def test_a_page_that_showed_another_manifest_approves_nothing(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    assert "showed another manifest" in approve(browse("reviewer"), draft, sha256="0" * 64)
    assert TaskBundle.objects.get(pk=draft.pk).status == "certified"


def test_nobody_approves_their_own_revision(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    assert "another reviewer has to approve it" in approve(browse("admin"), draft)
    assert TaskBundle.objects.get(pk=draft.pk).status == "certified"


def test_approving_twice_says_that_it_is_done(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    approve(browse("reviewer"), draft)
    assert "is not certified" in approve(browse("reviewer"), draft)
    assert AuditEntry.objects.filter(kind="bundle_review", subject=str(draft)).count() == 1


def test_a_retired_revision_stays_for_its_runs(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    browse("reviewer").post(f"/bundles/{site.bundle.name}/{site.bundle.revision}/retire/")
    assert TaskBundle.objects.get(pk=site.bundle.pk).status == "retired"
    assert browse("viewer").get(f"/runs/{run.key}/").status_code == 200


# --- the admin ---

ADMIN_LISTS = (
    "runs/run",
    "runs/trial",
    "runs/ownedresource",
    "runs/auditentry",
    "runs/taskbundle",
    "runs/endpoint",
    "runs/profile",
    "runs/worker",
    "runs/preview",
    "runs/harnesslock",
    "runs/imagelock",
    "evidence/artifact",
)


@pytest.mark.parametrize("name", ADMIN_LISTS)
def test_admin_lists_open_search_and_never_edit(full: Site, name: str) -> None:
    full.admin.is_superuser = True
    full.admin.save()
    client = signed_in(full, "admin")
    assert client.get(f"/admin/{name}/").status_code == 200
    assert client.get(f"/admin/{name}/?q=abc").status_code == 200
    if name not in ("runs/endpoint", "runs/profile"):
        assert client.get(f"/admin/{name}/add/").status_code == 403


def test_admin_rows_cannot_be_changed_or_deleted(full: Site) -> None:
    full.admin.is_superuser = True
    full.admin.save()
    client, run = signed_in(full, "admin"), full.runs["passed"]
    assert client.post(f"/admin/runs/run/{run.pk}/change/", {"verdict": "failed"}).status_code == 403
    assert client.post(f"/admin/runs/run/{run.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Run.objects.get(pk=run.pk).verdict == "passed"


@pytest.mark.parametrize("who", ["viewer", "operator", "anonymous"])
def test_only_staff_enter_the_admin(full: Site, who: str) -> None:
    assert signed_in(full, who).get("/admin/").status_code == 302


def test_a_reviewer_in_the_admin_sees_no_private_rows(full: Site) -> None:
    client = signed_in(full, "reviewer")
    assert client.get("/admin/runs/taskbundle/").status_code == 200
    for name in ("runs/ownedresource", "evidence/artifact", "runs/auditentry"):
        assert client.get(f"/admin/{name}/").status_code == 403


def action(client: Client, name: str, word: str, *pks: object) -> str:
    data = {"action": word, "_selected_action": [str(pk) for pk in pks]}
    return plain(client.post(f"/admin/{name}/", data, follow=True).content.decode())


def test_admin_actions_ask_the_same_functions(full: Site) -> None:
    client = signed_in(full, "admin")
    assert "1 being cancelled" in action(client, "runs/run", "cancel", full.runs["running"].pk)
    assert Run.objects.get(pk=full.runs["running"].pk).cancel_requested_by_name == "admin-1"
    assert "cleanup requested" in action(client, "runs/run", "retry_cleanup", full.runs["error"].pk)


def test_a_cleanup_is_retried_from_what_is_left_once_for_each_run(full: Site) -> None:
    run, client = full.runs["error"], signed_in(full, "admin")
    left = [resource.pk for resource in run.resources.all() if resource.left]
    assert len(left) == 2
    text = action(client, "runs/ownedresource", "retry_cleanup", *left)
    assert text.count(f"{run.key[:8]}: cleanup requested.") == 1
    assert AuditEntry.objects.filter(kind="cleanup", run_id=run.pk).count() == 1


def test_the_admin_shows_what_changed_since_the_reviewed_revision(site: Site, browse: Browser) -> None:
    draft, client = draft_bundle(site), browse("reviewer")
    text = plain(client.get(f"/admin/runs/taskbundle/{draft.pk}/change/").content.decode())
    assert "Changed since the reviewed revision" in text and digest("changed") in text
    assert (
        "no earlier revision was reviewed"
        in client.get(f"/admin/runs/taskbundle/{site.bundle.pk}/change/").content.decode()
    )


@pytest.mark.parametrize("query", ["", "?failure_class=grading", "?bucket=error", "?failure_class=nonsense"])
def test_a_long_list_is_filtered_by_what_can_be_without_looking_for_it(full: Site, query: str) -> None:
    """What is found in a column of a million rows takes looking at all of them."""
    client = signed_in(full, "admin")
    with CaptureQueriesContext(connection) as captured:
        text = plain(client.get(f"/admin/runs/trial/{query}").content.decode())
    assert not [one["sql"] for one in captured if "DISTINCT" in one["sql"]]
    assert ("grading.reward_boolean" in text, "worker runtime" in text) == (True, True)


@pytest.mark.parametrize(("query", "left", "gone"), [("", True, True), ("yes", True, False), ("no", False, True)])
def test_what_a_run_left_behind_is_found_in_the_admin(full: Site, query: str, left: bool, gone: bool) -> None:
    full.runs["error"].resources.filter(outcome="unknown").update(resource_id="f" * 12)
    full.runs["passed"].resources.update(resource_id="e" * 12)
    text = signed_in(full, "admin").get(f"/admin/runs/ownedresource/?all=&left={query}").content.decode()
    assert ("f" * 12 in text, "e" * 12 in text) == (left, gone)


@pytest.mark.parametrize(
    "model", ["run", "trial", "ownedresource", "taskbundle", "endpoint", "profile", "worker", "artifact"]
)
def test_a_record_leads_to_its_page_and_to_no_history_of_its_own(full: Site, model: str) -> None:
    keep(full.runs["passed"])
    client, app = signed_in(full, "admin"), "evidence" if model == "artifact" else "runs"
    record = apps.get_model(app, model).objects.first()
    html = client.get(f"/admin/{app}/{model}/{record.pk}/change/").content.decode()
    (link,) = re.findall(r'<a href="([^"#]+)[^"]*">Page on the site</a>', html)
    assert client.get(link).status_code == 200 and "historylink" not in html


def test_a_reviewer_cancels_nothing_in_the_admin(full: Site) -> None:
    client = signed_in(full, "reviewer")
    action(client, "runs/run", "cancel", full.runs["running"].pk)
    assert Run.objects.get(pk=full.runs["running"].pk).cancel_requested_at is None


@pytest.mark.parametrize(
    ("who", "offered"),
    [
        ("reviewer", {"review", "retire"}),
        ("operator", {"cancel", "retry_cleanup", "test_connection"}),
        ("admin", {"cancel", "retry_cleanup", "test_connection", "review", "retire", "declare_lost", "remove"}),
    ],
)
def test_staff_are_offered_what_their_role_may_do(full: Site, who: str, offered: set[str]) -> None:
    person = getattr(full, who)
    person.is_staff = True
    person.save()
    client, found = signed_in(full, who), set[str]()
    for name in ("run", "endpoint", "taskbundle", "worker"):
        html = client.get(f"/admin/runs/{name}/").content.decode()
        menu = html.split('<select name="action"')[1:]
        found |= {value for part in menu for value in re.findall(r'value="(\w+)"', part.split("</select>")[0])}
    assert found == offered


ENDPOINT = {
    "name": "serving-c",
    "base_url": "https://serving-c.internal/v1",
    "model": "coder-large",
    "ca_file": "/etc/benchsite/model-ca.pem",
    "headers": "OpenAI-Organization: org-7\r\n\r\nX-Title: a: b",
    "served_models": "coder-large-2026-05-01, org/coder",
    "route": "direct",
    "credential_kind": "env",
    "credential_name": "SERVING_C_KEY",
    "request_timeout_s": "60",
}


def test_an_endpoint_is_registered_as_a_new_version(site: Site, browse: Browser) -> None:
    client = browse("admin")
    for model in ("coder-large", "coder-large-2"):
        response = client.post("/admin/runs/endpoint/add/", {**ENDPOINT, "model": model})
        assert response.status_code == 302, plain(response.content.decode())
    assert Endpoint.objects.filter(name="serving-c")[0].served_models == ["coder-large-2026-05-01", "org/coder"]
    record = json.loads(Endpoint.objects.filter(name="serving-c")[0].record)
    assert record["headers"] == {"OpenAI-Organization": "org-7", "X-Title": "a: b"}
    assert (record["ca_file"], record["private_addresses"]) == ("/etc/benchsite/model-ca.pem", "refused")
    versions = Endpoint.objects.filter(name="serving-c").values_list("version", "model", "active")
    assert set(versions) == {(1, "coder-large", False), (2, "coder-large-2", True)}


@pytest.mark.parametrize(
    ("who", "place"), [("operator", "/etc/benchsite/model-ca.pem"), ("viewer", "a file on the worker")]
)
def test_an_endpoints_page_shows_all_of_its_record_but_no_place_to_a_viewer(
    site: Site, browse: Browser, who: str, place: str
) -> None:
    browse("admin").post("/admin/runs/endpoint/add/", ENDPOINT)
    text = plain(browse(who).get("/endpoints/serving-c/1/").content.decode())
    assert "may answer as coder-large-2026-05-01, org/coder" in text and "private addresses refused" in text
    assert "OpenAI-Organization: org-7" in text and f"CA file {place}" in text
    assert ("/etc/benchsite" in text) is (who == "operator")


SPENDING = {
    "price_currency": "USD", "price_date": "2026-11-30", "price_input": "2.50", "price_output": "10.00",
    "requests_per_minute": "60", "trial_tokens": "5000", "day_money": "12.50",
}  # fmt: skip


def test_prices_limits_and_budgets_of_the_form_stand_in_the_record_and_on_its_page(site: Site, browse: Browser) -> None:
    response = browse("admin").post("/admin/runs/endpoint/add/", ENDPOINT | SPENDING)
    assert response.status_code == 302, plain(response.content.decode())
    record = json.loads(Endpoint.objects.filter(name="serving-c")[0].record)
    assert record["prices"] == {
        "currency": "USD", "date": "2026-11-30", "input": "2.50", "cached_input": None, "output": "10.00",
    }  # fmt: skip
    assert record["limits"]["requests_per_minute"] == 60 and record["budgets"]["run"] is None
    assert record["budgets"]["day"] == {"tokens": None, "money": "12.50"}
    EndpointUsage.objects.create(
        run_key="a" * 32, endpoint_name="serving-c", day=datetime.now(UTC).date(), tokens=7, money=10**12,
        currency="USD",
    )  # fmt: skip
    text = plain(browse("viewer").get("/endpoints/serving-c/1/").content.decode())
    assert "2.50 in, 10.00 out USD a million tokens, as of 2026-11-30" in text and "60 requests a minute" in text
    assert "each trial: 5,000 tokens" in text and "a day (UTC): 12.50 USD 11.50 USD left" in text


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"price_input": "2,50"}, "price_input", "an amount as a text"),
        ({"price_date": "2026-02-30"}, "price_date", "no such day"),
        ({"price_currency": ""}, "price_currency", "missing"),
        ({"requests_per_minute": "0"}, "requests_per_minute", "below 1"),
        ({"trial_tokens": "0"}, "trial_tokens", "below 1"),
        ({"day_money": "0.00"}, "day_money", "allows nothing"),
        (dict.fromkeys((name for name in SPENDING if name.startswith("price_")), ""), "day_money", "it has none"),
    ],
)
def test_what_is_wrong_of_prices_limits_and_budgets_is_said_beside_its_field(
    site: Site, browse: Browser, wrong: dict[str, str], field: str, said: str
) -> None:
    response = browse("admin").post("/admin/runs/endpoint/add/", ENDPOINT | SPENDING | wrong)
    form = response.context["adminform"].form
    assert set(form.errors) == {field} and said in str(form.errors[field])


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "https://user:pass@serving-c.internal/v1"},
        {"base_url": "http://127.0.0.1:8000/v1"},
        {"credential_name": "sk-this-is-a-value-and-no-name"},
        {"credential_name": "DATABASE_URL"},
        {"model": "two words"},
    ],
)
def test_a_record_that_is_refused_says_why(site: Site, browse: Browser, wrong: dict[str, str]) -> None:
    response = browse("admin").post("/admin/runs/endpoint/add/", ENDPOINT | wrong)
    assert response.status_code == 200
    assert "errornote" in response.content.decode()
    assert not Endpoint.objects.filter(name="serving-c").exists()


def test_a_profile_is_uploaded_byte_for_byte(site: Site, browse: Browser) -> None:
    from pathlib import Path

    from django.core.files.uploadedfile import SimpleUploadedFile

    data = (Path(__file__).parents[1] / "fixtures/profiles-v1/smoke.json").read_bytes()
    browse("admin").post("/admin/runs/profile/add/", {"file": SimpleUploadedFile("smoke.json", data)})
    stored = Profile.objects.exclude(pk=site.profile.pk).get()
    assert bytes(stored.source) == data
    text = plain(browse("viewer").get(f"/profiles/{stored.pk}/").content.decode())
    assert "this site cannot run the suites" in text


# --- two at once ---


def at_once(*acts: Callable[[], object]) -> None:
    """Start all acts at the same moment, each in a thread with a connection of its own."""
    gate = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        gate.wait()
        try:
            act()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.django_db(transaction=True)
def test_two_operators_who_cancel_at_once_ask_once(site: Site, browse: Browser) -> None:
    run = make_run(site, "running")
    pages: list[str] = []
    clients = [browse("operator"), browse("other_operator")]
    press = [
        lambda client=client: pages.append(client.post(f"/runs/{run.key}/cancel/", follow=True).content.decode())
        for client in clients
    ]
    at_once(*press)
    assert AuditEntry.objects.filter(kind="cancel").count() == 1
    winner = Run.objects.get().cancel_requested_by_name
    assert all(f"{winner} requested it at" in plain(page) for page in pages)


@pytest.mark.django_db(transaction=True)
def test_a_confirmation_pressed_twice_at_once_starts_one_run(site: Site, browse: Browser) -> None:
    from tests.pages.runs.test_previews import confirm, preview_of

    preview = preview_of(site, browse("operator"))
    led_to: list[str] = []
    clients = [browse("operator"), browse("operator")]
    at_once(*[lambda client=client: led_to.append(confirm(client, preview)["Location"]) for client in clients])
    assert Run.objects.count() == 1
    assert set(led_to) == {f"/runs/{Run.objects.get().key}/"}


@pytest.mark.django_db(transaction=True)
def test_two_reviews_at_once_are_one_review(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    pages: list[str] = []
    clients = [browse("reviewer"), browse("reviewer")]
    at_once(*[lambda client=client: pages.append(approve(client, draft)) for client in clients])
    assert AuditEntry.objects.filter(kind="bundle_review", subject=str(draft)).count() == 1
    assert sum("is reviewed and can run now" in page for page in pages) == 1


@pytest.mark.django_db(transaction=True)
def test_two_operators_who_retry_a_cleanup_at_once_both_read_the_truth(site: Site, browse: Browser) -> None:
    """That it is one attempt, the queue sees to: see tests/runs/test_queue.py."""
    run = make_run(site, "error")
    pages: list[str] = []
    clients = [browse("operator"), browse("other_operator")]
    press = [
        lambda client=client: pages.append(client.post(f"/runs/{run.key}/cleanup/", follow=True).content.decode())
        for client in clients
    ]
    at_once(*press)
    assert all("Cleanup requested from worker-1" in page for page in pages) and len(pages) == 2
    assert (Run.objects.get().verdict, Run.objects.get().cleanup) == ("error", "failed")
