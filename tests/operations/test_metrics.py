"""/metrics: every number against rows, who may read it, how many questions it asks, and that each is documented."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.core.files.base import ContentFile
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from benchsite import metrics
from evidence.models import Artifact
from evidence.register import store
from runs.models import Cleanup, Run, RunState, Stage, StageMark
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import lifecycle
from tests.runs.rows import ERROR, FAILED, PASSED, Process, person, run_row, worker_row

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-24-characters"
HERE, ELSEWHERE = "127.0.0.1", "192.0.2.7"


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics.REDIS, "answer", lambda: True)
    monkeypatch.setattr(metrics.DISK, "bound_s", 60.0)


def scrape() -> dict[str, float]:
    """Every sample by its name and labels, as a scraper reads it."""
    response = Client().get("/metrics", REMOTE_ADDR=HERE)
    assert response.status_code == 200 and response["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def ended(*ends: Any, cleanup: Cleanup = Cleanup.CLEAN) -> Run:
    run = run_row()
    lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    for ordinal, end in enumerate(ends, 1):
        lifecycle.record_trial(run.pk, ordinal, end)
    verdict = Verdict.FAILED if ERROR not in ends else Verdict.ERROR
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=verdict, cleanup=cleanup)
    return run


def test_runs_trials_and_failed_cleanups_are_counted():
    ended(PASSED, PASSED, FAILED)
    ended(PASSED, FAILED, ERROR, cleanup=Cleanup.FAILED)
    lifecycle.request_cancel(run_row().pk, user=None)
    found = scrape() if run_row() else {}
    runs = {name: value for name, value in found.items() if name.startswith("benchsite_runs ")}
    assert runs == {
        "benchsite_runs state=finished verdict=failed": 1,
        "benchsite_runs state=finished verdict=error": 1,
        "benchsite_runs state=cancelled verdict=cancelled": 1,
        "benchsite_runs state=queued verdict=none": 1,
    }
    trials = {"passed": 3, "failed": 2, "error": 1, "cancelled": 3, "open": 3}
    assert {bucket: found[f"benchsite_trials bucket={bucket}"] for bucket in trials} == trials
    assert found["benchsite_cleanup_failed_runs"] == 1


def test_the_queue_has_a_depth_and_an_age():
    assert (scrape()["benchsite_queue_depth"], scrape()["benchsite_queue_oldest_age_seconds"]) == (0, 0)
    for minutes in (5, 90):
        with time_machine.travel(timezone.now() - timedelta(minutes=minutes), tick=False):
            run_row()
    found = scrape()
    assert found["benchsite_queue_depth"] == 2
    assert 5400 <= found["benchsite_queue_oldest_age_seconds"] < 5460


def test_workers_are_counted_by_what_is_known_of_them():
    now = timezone.now()
    worker_row("a", pid=1, heartbeat_at=now)
    worker_row("b", pid=1, heartbeat_at=now - timedelta(minutes=5))
    worker_row("c")
    worker_row("d", pid=1, lost_declared_at=now, heartbeat_at=now - timedelta(days=1))
    worker_row("e", heartbeat_at=now)
    worker_row("f", heartbeat_at=now - timedelta(days=1))
    found = scrape()
    assert {state: found[f"benchsite_workers state={state}"] for state in ("alive", "stale", "stopped", "lost")} == {
        "alive": 1,
        "stale": 1,
        "stopped": 3,
        "lost": 1,
    }


def stages(*durations: float, age: timedelta = timedelta()) -> None:
    """A run that waited 2 s and then spent these seconds in one trial each."""
    at = timezone.now() - age
    with time_machine.travel(at - timedelta(seconds=2), tick=False) as clock:
        run = run_row()
        clock.move_to(at)
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="harness", failure_code="harness.no_result")
        lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
    StageMark.objects.filter(run=run).delete()
    for ordinal, seconds in enumerate(durations, 1):
        StageMark.objects.create(run=run, stage=Stage.TRIAL, trial=ordinal, at=at)
        at += timedelta(seconds=seconds)
    StageMark.objects.create(run=run, stage=Stage.ENDED, at=at)


def test_stages_have_durations_of_recent_runs_only(monkeypatch):
    stages(1.0, 2.0)
    stages(9.0, 4.0)
    stages(500.0, age=timedelta(hours=25))
    found = scrape()
    assert found["benchsite_stage_samples stage=trial"] == 4
    quantiles = [found[f"benchsite_stage_seconds quantile={q} stage=trial"] for q in ("0.5", "0.95", "1.0")]
    assert quantiles == [2.0, 9.0, 9.0]
    assert found["benchsite_stage_seconds quantile=1.0 stage=queued"] == 2.0
    assert "benchsite_stage_samples stage=ended" not in found
    monkeypatch.setattr(metrics, "WINDOW_RUNS", 1)
    assert scrape()["benchsite_stage_samples stage=trial"] == 2


def test_evidence_is_summed_and_remembered(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    row = Artifact(run=run_row(), kind="other", path="a", state="ok")
    store.save(row, ContentFile(b"12345"))
    row.save()
    assert scrape()["benchsite_evidence_bytes"] == 5
    Artifact.objects.all().delete()
    assert scrape()["benchsite_evidence_bytes"] == 5
    cache.clear()
    assert scrape()["benchsite_evidence_bytes"] == 0
    cache.clear()


def test_the_number_of_questions_is_fixed():
    def questions() -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            scrape()
        return len(asked)

    stages(1.0)
    few = questions()
    for _ in range(5):
        stages(1.0, 2.0)
        worker_row(f"w{_}")
    assert questions() == few == 5
    with CaptureQueriesContext(connection) as asked:
        scrape()
    assert not any('"runs_trial"' in query["sql"] for query in asked)


def test_a_database_that_fails_is_503_without_its_words(monkeypatch):
    def fail() -> Any:
        raise OperationalError("password=hunter2")

    monkeypatch.setattr(metrics, "_groups", fail)
    response = Client().get("/metrics", REMOTE_ADDR=HERE)
    assert response.status_code == 503 and b"hunter2" not in response.content


# -- who may read it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"REMOTE_ADDR": HERE}, 200),
        ({"REMOTE_ADDR": "::1"}, 200),
        ({"REMOTE_ADDR": ELSEWHERE}, 403),
        ({"REMOTE_ADDR": HERE, "HTTP_X_FORWARDED_FOR": ELSEWHERE}, 403),
        ({"REMOTE_ADDR": HERE, "HTTP_X_FORWARDED_FOR": HERE}, 403),
        ({"REMOTE_ADDR": ELSEWHERE, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}, 200),
        ({"REMOTE_ADDR": ELSEWHERE, "HTTP_AUTHORIZATION": f"bearer  {TOKEN} "}, 200),
        ({"REMOTE_ADDR": ELSEWHERE, "HTTP_AUTHORIZATION": f"Bearer {TOKEN[:-1]}"}, 403),
        ({"REMOTE_ADDR": ELSEWHERE, "HTTP_AUTHORIZATION": f"Basic {TOKEN}"}, 403),
        ({"REMOTE_ADDR": ELSEWHERE, "HTTP_AUTHORIZATION": "Bearer ÿ"}, 403),
        ({"REMOTE_ADDR": ELSEWHERE, "HTTP_AUTHORIZATION": "Bearer"}, 403),
    ],
)
def test_only_this_host_and_the_token_get_in(settings, asked, status):
    settings.METRICS_TOKEN = TOKEN
    assert Client().get("/metrics", **asked).status_code == status


def test_without_a_token_an_empty_one_opens_nothing():
    for value in ("Bearer ", "Bearer", ""):
        assert Client().get("/metrics", REMOTE_ADDR=ELSEWHERE, HTTP_AUTHORIZATION=value).status_code == 403


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 403), ("reviewer", 403), ("admin", 200)])
def test_of_people_only_administrators_get_in(role, status):
    client = Client()
    client.force_login(person("somebody", role))
    response = client.get("/metrics", REMOTE_ADDR=ELSEWHERE)
    assert response.status_code == status
    assert status == 200 or b"metrics.refused" in response.content


# -- what is documented -----------------------------------------------------------------------------------


def test_every_metric_and_its_labels_are_documented_and_no_other():
    stages(1.0)
    families = list(text_string_to_metric_families(Client().get("/metrics", REMOTE_ADDR=HERE).content.decode()))
    labels = {sample.name: frozenset(sample.labels) for family in families for sample in family.samples}
    page = (Path(__file__).parents[2] / "docs/health.md").read_text()
    rows = re.findall(r"^\| `(benchsite_[a-z_]+)` \|([^|]*)\|", page, re.M)
    documented = {name: frozenset(re.findall(r"`([a-z]+)`", cell)) for name, cell in rows}
    assert documented == labels
    assert len(documented) == 13
