"""What became of a worker's process, and the page that declares its host lost."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.utils import timezone

from runs import hosts
from runs.models import AuditEntry, Run, Worker
from runs.presenting.workers import condition
from tests.pages.conftest import Browser, signed_in
from tests.pages.factories import Site, make_run
from tests.pages.test_access import ROLES

NAMES = ("worker_lost",)
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
        ({"pid": 7, "heartbeat_at": NOW - timedelta(minutes=5)}, "Not heard from since 14:05 UTC"),
        ({"pid": 7, "heartbeat_at": NOW - timedelta(hours=20)}, "Not heard from since 3 Mar, 18:10 UTC"),
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
        hosts.LOST_CODE,
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
    refused = browse("operator").post("/admin/runs/worker/", chosen, follow=True).content.decode()
    assert "may not declare a host lost" in refused
    assert Run.objects.get(pk=silent.pk).state == "running"
