"""Choose, preview, confirm: the preview is the contract, and a changed world refuses it."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.utils import timezone

from benchsite.lib.words import size
from evidence.register.ingest import MAX_FILES, MAX_RUN_BYTES
from runs.documents.run_spec import load_spec
from runs.models import AuditEntry, Preview, Run, TaskBundle, Worker
from runs.serializers.runs import run_document
from runs.services import workers
from tests.pages.conftest import Browser, signed_in
from tests.pages.factories import Site, digest

NAMES = {"preview", "preview_confirm"}


def choose(site: Site, client: Client, **more: Any) -> Any:
    data = {"profile": site.profile.pk, "endpoint": site.endpoint.pk, "worker": site.worker.pk, **more}
    return client.post("/runs/new/", data)


def preview_of(site: Site, client: Client, **more: Any) -> Preview:
    response = choose(site, client, **more)
    assert response.status_code == 302, response.content.decode()
    return Preview.objects.latest("created_at")


def page(client: Client, preview: Preview) -> str:
    response = client.get(f"/runs/previews/{preview.pk.hex}/")
    assert response.status_code == 200
    return str(response.content.decode())


def confirm(client: Client, preview: Preview, *, accept: list[str] | None = None, token: str = "") -> Any:
    from runs.services import starting

    names = [check["name"] for check in preview.to_accept] if accept is None else accept
    data = {"token": token or starting.token_of(preview), "accept": names}
    return client.post(f"/runs/previews/{preview.pk.hex}/confirm/", data)


def test_the_form_leads_to_a_preview_and_starts_nothing(site: Site, browse: Browser) -> None:
    preview = preview_of(site, browse("operator"))
    assert preview.user == site.operator
    assert not Run.objects.exists()


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


@pytest.mark.parametrize(
    ("tasks", "covers"),
    [(None, "3 of 3 cases of the profile"), (["file-tree"], "1 of 3 cases of the profile")],
)
def test_a_narrowed_run_says_how_many_of_the_profiles_cases_it_covers(
    site: Site, browse: Browser, tasks: list[str] | None, covers: str
) -> None:
    client = browse("operator")
    preview = preview_of(site, client, **({} if tasks is None else {"tasks": tasks}))
    assert covers in plain(page(client, preview))
    assert confirm(client, preview).status_code == 302
    run = Run.objects.get()
    (head,) = re.findall(r'<p class="facts">.*?</p>', client.get(f"/runs/{run.key}/").content.decode(), re.DOTALL)
    assert (covers in head) == (tasks is not None)
    assert run_document(run)["cases"] == {"profile": 3, "chosen": 3 if tasks is None else 1}


def test_the_preview_shows_the_limits_of_all_three_containers_and_of_what_is_between(
    site: Site, browse: Browser
) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    shown, limits = plain(page(client, preview)), load_spec(preview.spec.encode()).content.limits
    for role, network in (("agent", "gateway only"), ("verifier", "none"), ("gateway", "the endpoint")):
        of = limits.of(role)
        storage = size(sum(of.tmpfs.values())) if of.tmpfs else "none"
        row = (
            f"{role.capitalize()} {of.cpus:g} CPUs {size(of.memory_bytes)} memory {of.pids:,} processes "
            f"{of.nofile:,} open files {storage} writable network: {network}"
        )
        assert row in shown
    for line in (
        "Container start 1 min each", "Agent's set-up 1 min", "Each transfer 64 MiB in 2,048 files",
        "Temperature the agent's choice", "Seed the agent's choice",
    ):  # fmt: skip
        assert line in shown


@pytest.mark.parametrize(
    ("free", "row", "noted"),
    [
        (64 << 30, "Free disk 2 GiB required 64 GiB reported met", False),
        (1 << 30, "Free disk 2 GiB required 1 GiB reported too little", True),
        (None, "Free disk 2 GiB required not recorded reported not known", False),
    ],
)
def test_what_the_profile_requires_stands_against_what_the_worker_reported(
    site: Site, browse: Browser, free: int | None, row: str, noted: bool
) -> None:
    report = json.loads(site.worker.report)
    report.pop("disk_free_bytes")
    Worker.objects.filter(pk=site.worker.pk).update(
        report=json.dumps(report if free is None else {**report, "disk_free_bytes": free})
    )
    client = browse("operator")
    preview = preview_of(site, client)
    assert row in plain(page(client, preview))
    assert ("worker.disk_full" in {check["code"] for check in preview.notes}) == noted and not preview.blocking


def test_the_preview_shows_what_would_run(site: Site, browse: Browser) -> None:
    client = browse("operator")
    text = page(client, preview := preview_of(site, client))
    assert preview.spec_sha256[:8] in text
    for words in ("Three tasks", "worker-1", "mini-swe-agent 2.4.6", "coder-medium", "SERVING_A_KEY", "30 min"):
        assert words in text
    assert "10 containers, 2 networks" in text


def test_the_preview_says_what_is_downloaded_and_how_much_disk_is_kept(site: Site, browse: Browser) -> None:
    client = browse("operator")
    text = page(client, preview_of(site, client))
    assert "none: images hold everything" in text
    assert f"{MAX_RUN_BYTES // 1024**2} MiB of evidence in {MAX_FILES:,} files" in text


def test_what_the_worker_cannot_enforce_is_named_and_accepted_one_by_one(site: Site, browse: Browser) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    names = [check["name"] for check in preview.to_accept]
    assert names
    text = page(client, preview)
    for name in names:
        assert f'name="accept" value="{name}" required' in text


def test_confirming_starts_the_run_and_shows_it(site: Site, browse: Browser) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    response = confirm(client, preview)
    run = Run.objects.get()
    assert response["Location"] == f"/runs/{run.key}/"
    assert run.spec_sha256 == preview.spec_sha256
    assert "Queued" in client.get(response["Location"]).content.decode()


def test_without_acceptance_nothing_starts(site: Site, browse: Browser) -> None:
    client = browse("operator")
    response = confirm(client, preview_of(site, client), accept=[])
    assert response.status_code == 409
    assert "Start refused" in response.content.decode()
    assert not Run.objects.exists()


def test_a_changed_image_refuses_the_start_and_shows_old_and_new(site: Site, browse: Browser) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    recipe = site.worker.image_locks.get(role="verifier").recipe_sha256
    rebuilt = f"sha256:{digest('another build')}"
    workers.record_image_locks("worker-1", {"verifier": {"image_id": rebuilt, "recipe_sha256": recipe}})
    response = confirm(client, preview)
    text = response.content.decode()
    assert response.status_code == 409
    assert "images.verifier" in text
    assert rebuilt in text
    assert f"sha256:{digest('verifier')}" in text
    assert not Run.objects.exists()
    gate = text.split('aria-labelledby="confirm"')[1]
    assert "What would run has changed" in gate and "disabled>Start this run" in gate and "open until" not in gate


def test_confirming_twice_gives_the_same_run(site: Site, browse: Browser) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    first, second = confirm(client, preview), confirm(client, preview)
    assert first["Location"] == second["Location"]
    assert Run.objects.count() == 1
    assert "was already confirmed" in client.get(second["Location"]).content.decode()


def test_a_used_preview_leads_to_its_run(site: Site, browse: Browser) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    confirm(client, preview)
    text = page(client, preview)
    assert "Start this run" not in text
    assert f"/runs/{Run.objects.get().key}/" in text


def test_an_expired_preview_is_closed(site: Site, browse: Browser) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    client_later = signed_in(site, "operator")
    with time_machine.travel(timezone.now() + timedelta(minutes=16), tick=False):
        assert "It expired at" in page(client_later, preview)
        assert confirm(client_later, preview).status_code == 409
    assert not Run.objects.exists()


def test_a_blocking_check_closes_the_gate_and_names_its_remedy(site: Site, browse: Browser) -> None:
    site.worker.image_locks.filter(role="verifier").update(current=False)
    client = browse("operator")
    text = page(client, preview_of(site, client))
    assert "Blocking." in text
    assert 'name="token"' not in text
    assert text.index('id="checks"') < text.index('id="cannot"')


@pytest.mark.parametrize("who", ["other_operator", "admin", "viewer", "reviewer"])
def test_a_preview_is_its_makers_own(site: Site, browse: Browser, who: str) -> None:
    preview = preview_of(site, browse("operator"))
    stranger = browse(who)
    expected = 403 if who in ("viewer", "reviewer") else 404
    assert stranger.get(f"/runs/previews/{preview.pk.hex}/").status_code == expected
    assert confirm(stranger, preview).status_code == expected
    assert not Run.objects.exists()


def test_nobody_confirms_without_signing_in(site: Site, browse: Browser, client: Client) -> None:
    preview = preview_of(site, browse("operator"))
    assert confirm(client, preview)["Location"].startswith("/sign-in/")


def test_a_forged_token_starts_nothing(site: Site, browse: Browser) -> None:
    client = browse("operator")
    assert confirm(client, preview_of(site, client), token="forged").status_code == 409
    assert not Run.objects.exists()


def test_a_limit_wider_than_the_profile_is_refused_at_the_form(site: Site, browse: Browser) -> None:
    response = choose(site, browse("operator"), max_steps=10_000)
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    assert not Preview.objects.exists()


def test_fewer_tasks_can_be_chosen(site: Site, browse: Browser) -> None:
    client = browse("operator")
    assert "One task" in page(client, preview_of(site, client, tasks=["file-tree"]))


def test_a_task_that_is_none_is_refused_at_the_form(site: Site, browse: Browser) -> None:
    assert choose(site, browse("operator"), tasks=["../etc"]).status_code == 200
    assert not Preview.objects.exists()


def test_a_site_without_workers_says_how_to_get_one(db: None, client: Client) -> None:
    from tests.pages.factories import person

    client.force_login(person("operator-9", "operator"))
    assert "manage.py prepare" in client.get("/runs/new/").content.decode()


def test_a_worker_that_serves_is_offered_first(site: Site, browse: Browser) -> None:
    """One that was never started, or fell silent, would keep the run waiting."""
    Worker.objects.create(name="a-name-that-sorts-first")
    text = browse("operator").get("/runs/new/").content.decode()
    assert text.index(">worker-1<") < text.index(">a-name-that-sorts-first, ")


def test_a_run_can_be_previewed_again_with_its_choices(full: Site) -> None:
    client = signed_in(full, "operator")
    text = client.get(f"/runs/new/?like={full.runs['passed'].key}").content.decode()
    assert text.count("checked") >= 3


def test_preview_and_start_are_in_the_audit(site: Site, browse: Browser) -> None:
    client = browse("operator")
    confirm(client, preview_of(site, client))
    assert list(AuditEntry.objects.order_by("id").values_list("kind", flat=True))[-2:] == ["preview", "start"]


def _forget(bundle: TaskBundle) -> None:
    """Another site's profile binds a bundle that was never imported here."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA defer_foreign_keys = ON")
    TaskBundle.objects.filter(pk=bundle.pk)._raw_delete("default")


def test_the_bundle_is_the_profiles_and_never_another(site: Site, browse: Browser) -> None:
    _forget(site.bundle)
    response = choose(site, browse("operator"))
    assert response.status_code == 200
    assert "no bundle named" in response.content.decode()
