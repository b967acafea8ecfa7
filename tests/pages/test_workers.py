"""What became of a worker's process, and the page that declares its host lost."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from runs.models import AuditEntry, Run, Worker
from runs.services import access, endpoint_testing, lost_hosts, previewing, workers
from runs.services.workers import condition
from tests.pages.conftest import Browser, signed_in
from tests.pages.factories import Site, make_run
from tests.pages.test_access import ROLES
from tests.pages.test_reviews import at_once

NAMES = ("worker_lost", "worker_remove")
LOST = "/workers/worker-1/lost/"


def fallen_silent(site: Site, minutes: int = 5) -> None:
    Worker.objects.filter(pk=site.worker.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=minutes))


@pytest.fixture
def silent(site: Site) -> Run:
    """A run that was being executed when its host fell silent."""
    run = make_run(site, "running")
    fallen_silent(site)
    return run


NOW = datetime(2026, 3, 4, 14, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"pid": 7, "heartbeat_at": NOW}, "Serving"),
        ({"pid": 7, "heartbeat_at": NOW, "draining": True}, "Draining"),
        ({"pid": None, "heartbeat_at": NOW - timedelta(minutes=3)}, "Stopped 3 min ago"),
        ({"pid": 7, "heartbeat_at": NOW - timedelta(minutes=5)}, "No heartbeat since 14:05 UTC"),
        ({"pid": 7, "heartbeat_at": NOW - timedelta(hours=20)}, "No heartbeat since 3 Mar, 18:10 UTC"),
        ({"pid": None, "heartbeat_at": None}, "Never started"),
        ({"pid": 7, "heartbeat_at": NOW, "lost_declared_at": NOW}, "Declared lost"),
    ],
)
def test_a_workers_condition_in_words(values: dict[str, object], word: str) -> None:
    with time_machine.travel(NOW, tick=False):
        assert condition(Worker(name="w", **values), NOW).word == word


def test_a_worker_that_stopped_is_not_alive_however_lately(site: Site) -> None:
    assert site.worker.alive
    site.worker.pid = None
    assert not site.worker.alive


@pytest.mark.parametrize("path", ["/", "/workers/", "/workers/worker-1/", "/runs/new/"])
def test_each_page_says_that_a_worker_stopped(site: Site, browse: Browser, path: str) -> None:
    stopped = timezone.now() - timedelta(minutes=3)
    Worker.objects.filter(pk=site.worker.pk).update(pid=None, heartbeat_at=stopped)
    assert "stopped 3 min ago" in browse("operator").get(path).content.decode().lower()


def test_the_page_says_what_ends_and_what_stays_unknown_and_does_nothing(silent: Run, browse: Browser) -> None:
    text = browse("admin").get(LOST).content.decode()
    assert silent.key[:8] in text
    assert "1 graded trial of 3 kept" in text
    assert "Whether 4 containers and networks of these runs still exist" in text
    assert Run.objects.get(pk=silent.pk).state == "running"
    assert not AuditEntry.objects.filter(kind="host_lost").exists()


def test_confirming_ends_the_runs_once_and_names_who_did_it(silent: Run, browse: Browser) -> None:
    client = browse("admin")
    first = client.post(LOST, follow=True).content.decode()
    second = client.post(LOST, follow=True).content.decode()
    run = Run.objects.get(pk=silent.pk)
    assert (run.state, run.verdict, run.cleanup, run.failure_code) == (
        "interrupted",
        "error",
        "failed",
        lost_hosts.LOST_CODE,
    )
    assert "worker-1 is declared lost; 1 run ended." in first
    assert "worker-1 was declared lost before; 0 runs ended." in second
    assert "Declared lost by admin-1" in second
    assert [entry.actor_name for entry in AuditEntry.objects.filter(kind="host_lost")] == ["admin-1"]


def test_the_page_opens_and_acts_for_administrators_alone(silent: Run, site: Site) -> None:
    for who in ROLES:
        seen, done = signed_in(site, who).get(LOST), signed_in(site, who).post(LOST)
        assert (seen.status_code, done.status_code) == ((200, 302) if who == "admin" else (403, 403)), who
        assert Run.objects.get(pk=silent.pk).terminal == (who == "admin")
    assert "/sign-in/" in signed_in(site, "anonymous").post(LOST)["Location"]


def test_the_button_is_there_for_administrators_once_the_worker_is_silent(site: Site, browse: Browser) -> None:
    shown = {}
    for who in ("operator", "admin"):
        before = browse(who).get("/workers/worker-1/").content.decode()
        fallen_silent(site)
        shown[who] = (LOST in before, LOST in browse(who).get("/workers/worker-1/").content.decode())
        Worker.objects.update(heartbeat_at=timezone.now())
    assert shown == {"operator": (False, False), "admin": (False, True)}


def test_a_worker_that_serves_is_not_declared_lost(site: Site, browse: Browser) -> None:
    run = make_run(site, "running")
    assert "Cancel its run or stop the worker" in browse("admin").get(LOST).content.decode()
    assert "Cancel its run or stop the worker" in browse("admin").post(LOST, follow=True).content.decode()
    assert Run.objects.get(pk=run.pk).state == "running"
    assert Worker.objects.get().lost_declared_at is None


def test_the_admin_leads_to_the_page_and_does_nothing_itself(silent: Run, site: Site, browse: Browser) -> None:
    chosen = {"action": "declare_lost", "_selected_action": [site.worker.pk]}
    response = browse("admin").post("/admin/runs/worker/", chosen)
    assert response["Location"] == LOST
    site.operator.is_staff = True
    site.operator.save()
    refused = browse("operator").post("/admin/runs/worker/", chosen)
    assert refused.status_code == 200 and "declare_lost" not in refused.content.decode()
    assert Run.objects.get(pk=silent.pk).state == "running"


# --- a worker that was registered by mistake ---

REMOVE = "/workers/wroker-1/remove/"


@pytest.fixture
def mistaken(site: Site) -> Worker:
    return Worker.objects.create(name="wroker-1")


def test_a_mistaken_worker_is_removed_with_its_previews_and_tests(
    site: Site, browse: Browser, mistaken: Worker
) -> None:
    previewing.make_preview(user=site.operator, choice=replace(site.choice, worker=mistaken))
    endpoint_testing.request_test(user=site.operator, endpoint=site.endpoint, worker=mistaken)
    admin = browse("admin")
    said = admin.get(REMOVE).content.decode()
    assert "1 preview that started nothing" in said and "1 connection test" in said
    assert Worker.objects.filter(name="wroker-1").exists()
    assert "wroker-1 is removed." in admin.post(REMOVE, follow=True).content.decode()
    assert not Worker.objects.filter(name="wroker-1").exists()
    entry = AuditEntry.objects.get(kind="worker_remove")
    assert (entry.actor_name, entry.subject) == ("admin-1", "wroker-1")
    assert entry.detail == {"host": "", "previews": 1, "tests": 1}


def test_only_administrators_remove_a_worker(site: Site, browse: Browser, mistaken: Worker) -> None:
    for who in ROLES:
        if who != "admin":
            assert browse(who).get(REMOVE).status_code == browse(who).post(REMOVE).status_code == 403
    assert browse("anonymous").post(REMOVE)["Location"].startswith("/sign-in/")
    assert Worker.objects.filter(pk=mistaken.pk).exists()
    assert "Remove…" not in browse("operator").get("/workers/wroker-1/").content.decode()
    assert "Remove…" in browse("admin").get("/workers/wroker-1/").content.decode()


@pytest.mark.parametrize(
    ("values", "code", "sentence"),
    [
        ({"pid": 7, "heartbeat_at": NOW}, "worker.still_serving", "wroker-1 was heard from just now."),
        ({}, "worker.had_runs", "wroker-1 is named by 1 run, which keep it"),
    ],
)
def test_a_worker_that_serves_or_had_runs_is_not_removed(
    site: Site, browse: Browser, mistaken: Worker, values: dict[str, object], code: str, sentence: str
) -> None:
    with time_machine.travel(NOW, tick=False):
        Worker.objects.filter(pk=mistaken.pk).update(**values)
        if not values:
            make_run(replace(site, worker=mistaken), "passed")
        admin = signed_in(site, "admin")
        shown = admin.get(REMOVE).content.decode()
        assert sentence in shown and code in shown and "<button" not in shown.partition("<h1>")[2]
        assert sentence in admin.post(REMOVE, follow=True).content.decode()
    assert Worker.objects.filter(pk=mistaken.pk).exists()
    assert not AuditEntry.objects.filter(kind="worker_remove").exists()


def test_a_worker_that_is_gone_is_said_to_be_and_an_unknown_one_is_not(
    site: Site, browse: Browser, mistaken: Worker
) -> None:
    admin = browse("admin")
    admin.post(REMOVE)
    assert "was removed before" in admin.post(REMOVE, follow=True).content.decode()
    assert admin.post("/workers/never-there/remove/").status_code == 404
    assert AuditEntry.objects.filter(kind="worker_remove").count() == 1


def test_one_that_goes_while_the_page_is_asked_for_is_said_to_be_gone(
    site: Site, browse: Browser, mistaken: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race of two who remove it at once, at its worst moment: it is found to be no longer there."""
    look = access.worker_or_404

    def late(user: Any, name: str) -> Worker:
        workers.remove_worker(user=site.admin, worker=mistaken)
        return look(user, name)

    monkeypatch.setattr("runs.services.access.worker_or_404", late)
    assert "wroker-1 was removed before." in browse("admin").post(REMOVE, follow=True).content.decode()


def test_a_removed_name_is_free_again(site: Site, browse: Browser, mistaken: Worker) -> None:
    browse("admin").post(REMOVE)
    Worker.objects.create(name="wroker-1")
    assert browse("admin").get(REMOVE).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_two_who_remove_a_worker_at_once_remove_it_once(site: Site, browse: Browser, mistaken: Worker) -> None:
    said: list[str] = []
    clients = [browse("admin"), browse("admin")]
    at_once(
        *[lambda client=client: said.append(client.post(REMOVE, follow=True).content.decode()) for client in clients]
    )
    assert AuditEntry.objects.filter(kind="worker_remove").count() == 1
    assert sorted("wroker-1 is removed." in page for page in said) == [False, True]
    assert sum("wroker-1 was removed before." in page for page in said) == 1


def test_the_admins_action_leads_to_the_page_that_says_what_goes(site: Site, browse: Browser, mistaken: Worker) -> None:
    chosen = {"action": "remove", "_selected_action": [mistaken.pk]}
    response = browse("admin").post("/admin/runs/worker/", chosen)
    assert response["Location"] == REMOVE
    assert Worker.objects.filter(pk=mistaken.pk).exists()


def test_what_a_worker_cannot_enforce_is_counted_as_a_preview_counts_it(site: Site, browse: Browser) -> None:
    asked = previewing.make_preview(user=site.operator, choice=site.choice).to_accept
    client = browse("viewer")
    assert f"{len(asked)} limits not enforced" in client.get("/workers/").content.decode()
    text = client.get("/workers/worker-1/").content.decode()
    assert f"{len(asked)} not enforced" in text and "Harness with a user of its own" in text
