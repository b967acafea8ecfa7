"""Every address, for every kind of person: who gets which page."""

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from benchsite.accounts.views import link_for
from evidence.models import ExperimentTrial
from runs.models import Run
from tests.experiments import rows
from tests.pages import experiment_rows
from tests.pages.conftest import Browser, signed_in
from tests.pages.factories import Site

OPEN_TO_ALL = {"login", "one_time_login", "healthz"}
FOR_MACHINES = {"metrics", "api_schema", "api_unknown"}  # see tests/operations and tests/api
ROLES = ("viewer", "operator", "other_operator", "reviewer", "admin")
# name → who may read it; everyone else who is signed in is refused with 403.
READ = {
    "overview": ROLES,
    "overview_live": ROLES,
    "runs": ROLES,
    "run": ROLES,
    "run_live": ROLES,
    "trial": ROLES,
    "trial_live": ROLES,
    "compare": ROLES,
    "experiments": ROLES,
    "experiments_compare": ROLES,
    "experiment": ROLES,
    "experiment_trial": ROLES,
    "experiment_conversation": ("operator", "other_operator", "admin"),
    "experiment_file": ("operator", "other_operator", "admin"),
    "suites": ROLES,
    "suite": ROLES,
    "case": ROLES,
    "profiles": ROLES,
    "profile": ROLES,
    "bundles": ROLES,
    "bundle": ROLES,
    "endpoints": ROLES,
    "endpoint": ROLES,
    "endpoint_connection": ROLES,
    "workers": ROLES,
    "signing_keys": ROLES,
    "signing_keys_file": ROLES,
    "worker": ROLES,
    "account": ROLES,
    "api_docs": ROLES,
    "password_change": ROLES,
    "run_new": ("operator", "other_operator", "admin"),
}
# name → who may do it by POST.
ACT = {
    "run_cancel": ("operator", "other_operator", "admin"),
    "run_cleanup": ("operator", "other_operator", "admin"),
    "bundle_review": ("reviewer", "admin"),
    "bundle_retire": ("reviewer", "admin"),
    "endpoint_stop": ("operator", "other_operator", "admin"),
    "endpoint_allow": ("admin",),
    "appearance": ROLES,
}


def address(site: Site, name: str) -> str:
    from django.urls import reverse

    run = site.runs["error"].key
    arguments: dict[str, list[object]] = {
        "run": [run],
        "run_live": [run],
        "run_cancel": [run],
        "run_cleanup": [run],
        "trial": [run, 1],
        "trial_live": [run, 1],
        "profile": [site.profile.pk],
        "bundle": [site.bundle.name, site.bundle.revision],
        "bundle_review": [site.bundle.name, site.bundle.revision],
        "bundle_retire": [site.bundle.name, site.bundle.revision],
        "endpoint": [site.endpoint.name, site.endpoint.version],
        "endpoint_connection": [site.endpoint.name, site.endpoint.version],
        "endpoint_test": [site.endpoint.name, site.endpoint.version],
        "endpoint_stop": [site.endpoint.name, site.endpoint.version],
        "endpoint_allow": [site.endpoint.name, site.endpoint.version],
        "worker": [site.worker.name],
    }
    if name in ("experiment", "experiment_trial", "experiment_conversation", "experiment_file", "suite", "case"):
        trial = experiment_trial()
        arguments["experiment_conversation"] = [trial.experiment.key, trial.pk]
        arguments["experiment_file"] = [trial.files.get().key]
        arguments["experiment"] = [trial.experiment.key]
        arguments["experiment_trial"] = [trial.experiment.key, trial.pk]
        arguments |= {"suite": [trial.case.suite_id], "case": [trial.case_id]}
    return reverse(name, args=arguments.get(name, []))


def experiment_trial() -> ExperimentTrial:
    """One trial of one imported experiment with its trajectory, made once."""
    found = ExperimentTrial.objects.first()
    if found is None:
        found = rows.trial(rows.experiment())
        experiment_rows.keep(found, "agent/trajectory.json", b"{}")
    return found


@pytest.mark.parametrize("name", READ)
def test_a_page_opens_for_exactly_the_roles_it_is_for(full: Site, name: str) -> None:
    found = {who: signed_in(full, who).get(address(full, name)).status_code for who in ROLES}
    assert found == {who: 200 if who in READ[name] else 403 for who in ROLES}


@pytest.mark.parametrize("name", READ)
def test_no_browser_keeps_what_a_signed_in_person_was_shown(full: Site, name: str) -> None:
    response = signed_in(full, "admin").get(address(full, name))
    assert (response.status_code, response.headers.get("Cache-Control")) == (200, "private, no-store")


def test_only_who_may_read_private_evidence_is_told_where_a_credential_is_held(full: Site) -> None:
    for name in ("run", "endpoint"):
        told = {who: "SERVING_A_KEY" in signed_in(full, who).get(address(full, name)).content.decode() for who in ROLES}
        assert told == {who: who not in ("viewer", "reviewer") for who in ROLES}, name


def test_nobody_sees_anything_without_signing_in(full: Site, client: Client) -> None:
    for name in (*READ, *ACT):
        for response in (client.get(address(full, name)), client.post(address(full, name))):
            assert (name, response.status_code) == (name, 302)
            assert response["Location"].startswith("/sign-in/")


@pytest.mark.parametrize("name", ACT)
def test_an_act_is_done_for_exactly_the_roles_it_is_for(full: Site, name: str) -> None:
    found = {who: signed_in(full, who).post(address(full, name)).status_code for who in ROLES}
    assert found == {who: 302 if who in ACT[name] else 403 for who in ROLES}


def test_an_act_is_never_done_by_following_a_link(full: Site) -> None:
    client = signed_in(full, "admin")
    assert {name: client.get(address(full, name)).status_code for name in ACT} == dict.fromkeys(ACT, 405)


def test_an_act_needs_the_forms_token(full: Site) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(full.admin)
    for name in ACT:
        response = client.post(address(full, name))
        assert (name, response.status_code) == (name, 403)
        assert "Form expired" in response.content.decode()


def test_a_link_that_signs_in_once_says_so_the_second_time(full: Site, client: Client) -> None:
    link = link_for(full.admin)
    assert client.get(link)["Location"] == "/"
    again = Client().get(link)
    assert again.status_code == 404 and "manage.py demo_login" in again.content.decode()


def test_somebody_without_a_role_sees_only_that_they_have_none(full: Site, client: Client) -> None:
    from tests.pages.factories import person

    client.force_login(person("newcomer"))
    text = client.get("/").content.decode()
    assert "no role yet" in text and "/workers/" not in text and "/runs/" not in text
    for name in (
        "runs",
        "run",
        "trial",
        "compare",
        "profiles",
        "bundles",
        "endpoints",
        "workers",
        "experiments",
        "experiment",
        "experiment_trial",
        "suites",
        "case",
    ):
        assert client.get(address(full, name)).status_code == 403


def test_every_address_of_the_site_is_in_these_tables(full: Site) -> None:
    from tests.pages import test_tokens, test_workers
    from tests.pages.evidence import test_evidence
    from tests.pages.runs import test_previews

    known = {
        *READ,
        *ACT,
        *OPEN_TO_ALL,
        "endpoint_test",  # test_connection.py
        "run_short",  # test_short_ids.py
        *FOR_MACHINES,
        "logout",
        *test_previews.NAMES,
        *test_evidence.NAMES,
        *test_workers.NAMES,
        *test_tokens.NAMES,
    }
    assert set(_names(get_resolver().url_patterns)) - known == set()


def _names(patterns: list[URLPattern | URLResolver]) -> list[str]:
    names: list[str] = []
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            names += [] if pattern.app_name == "admin" else _names(pattern.url_patterns)
        elif pattern.name:
            names.append(pattern.name)
    return names


@pytest.mark.parametrize("path", ["/runs/zzz/", "/runs/" + "0" * 32 + "/", "/runs/../../etc/passwd/", "/runs/%00/"])
def test_an_unknown_run_is_not_found_and_says_what_to_do(full: Site, browse: Browser, path: str) -> None:
    response = browse("operator").get(path)
    assert response.status_code == 404
    assert "start from the overview" in response.content.decode()


def test_viewers_see_no_private_text_on_a_run(full: Site) -> None:
    run = full.runs["error"]
    text = signed_in(full, "viewer").get(address(full, "run")).content.decode()
    assert "mini-swe-agent 2.4.6 found in the image" not in text
    assert "Log: operators only." in text
    for resource in run.resources.all():
        assert resource.resource_id not in text
    assert "removal is already in progress" not in text


def test_operators_see_logs_and_exact_ids(full: Site) -> None:
    text = signed_in(full, "operator").get(address(full, "run")).content.decode()
    assert "mini-swe-agent 2.4.6 found in the image" in text
    gateway = full.runs["error"].resources.get(role="gateway").resource_id
    assert gateway[:8] in text
    assert gateway[8:-4] in text


def test_viewers_are_offered_nothing_they_may_not_do(full: Site) -> None:
    for path in ("/", "/runs/", address(full, "run"), f"/runs/{full.runs['running'].key}/"):
        text = signed_in(full, "viewer").get(path).content.decode()
        for forbidden in ("/runs/new/", "Retry cleanup", "Cancel run "):
            assert forbidden not in text


@pytest.mark.parametrize(("who", "shown"), [("reviewer", False), ("operator", True), ("admin", True)])
def test_staff_without_private_evidence_see_no_private_detail_in_the_admin(full: Site, who: str, shown: bool) -> None:
    person = getattr(full, who)
    person.is_staff = True
    person.save()
    run = next(iter(full.runs.values()))
    Run.objects.filter(pk=run.pk).update(failure_detail="a-private-detail")
    client = signed_in(full, who)
    answer = client.get(f"/admin/runs/run/{run.pk}/change/")
    assert answer.status_code == 200
    assert (b"a-private-detail" in answer.content) == shown
    for path in (f"run/{run.pk}", f"endpoint/{full.endpoint.pk}"):
        answer = client.get(f"/admin/runs/{path}/change/")
        assert (path, answer.status_code, b"SERVING_A_KEY" in answer.content) == (path, 200, shown)


@pytest.mark.parametrize(("who", "filters"), [("reviewer", False), ("operator", True)])
@pytest.mark.parametrize(
    "lookup",
    [
        "run/?failure_detail__startswith=a-pri",
        "run/?lease_pid__gt=0",
        "run/?failure_detail=a-private",
        "run/?spec__contains=SERVING",
        "endpoint/?record__contains=SERVING",
    ],
)
def test_no_list_in_the_admin_is_filtered_by_what_its_reader_is_not_shown(
    full: Site, who: str, filters: bool, lookup: str
) -> None:
    """Which runs remain would tell a private detail letter by letter."""
    person = getattr(full, who)
    person.is_staff = True
    person.save()
    answer = signed_in(full, who).get(f"/admin/runs/{lookup}")
    shown_to_operators = filters and "lease_pid" not in lookup
    assert answer.status_code == (200 if shown_to_operators else 400)


def test_who_may_register_an_endpoint_is_led_to_the_form(full: Site) -> None:
    form = "/admin/runs/endpoint/add/"
    full.admin.is_staff = True
    full.admin.save()
    assert form in signed_in(full, "admin").get("/endpoints/").content.decode()
    assert form not in signed_in(full, "operator").get("/endpoints/").content.decode()
