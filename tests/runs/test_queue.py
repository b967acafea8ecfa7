"""Runs travel through a real queue by id only, once, and the database stays the truth."""

import json
import uuid
from pathlib import Path

import django_rq
import pytest
from rq.job import Job, JobStatus

from benchsite.lib import embedded_redis
from runs import jobs
from runs.models import AuditEntry, Cleanup, Run, RunState
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import cleaning, lifecycle, queue
from runs.services.previewing import make_preview
from runs.services.refusals import BadInput
from runs.services.starting import confirm, token_of
from tests.runs.rows import PASSED, Process, person, run_row
from tests.runs.sites import ready_site
from tests.runs.test_lifecycle import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("real_queue")]


def job_of(run) -> Job:
    return Job.fetch(queue.job_id(run.pk), connection=django_rq.get_connection("default"))


def test_a_confirmed_run_waits_on_its_workers_own_queue():
    site = ready_site("alpha")
    preview = make_preview(**site.choice())
    run = confirm(user=site.operator, preview_id=preview.pk, token=token_of(preview))
    job = job_of(run)
    assert job.get_status() is JobStatus.QUEUED
    assert (job.origin, job.func_name, job.args) == ("worker:alpha", "runs.jobs.run", (run.key,))
    assert queue.queue_of("local").get_job_ids() == []


def test_the_job_may_take_longer_than_the_run():
    """The queue's timeout is explicit and above the run's own limit."""
    site = ready_site()
    preview = make_preview(**site.choice())
    run = confirm(user=site.operator, preview_id=preview.pk, token=token_of(preview))
    limit = json.loads(run.spec)["limits"]["run_s"]
    assert job_of(run).timeout == limit + queue.BACKSTOP_S > limit
    assert job_of(run).retries_left is None


def test_a_run_is_never_two_jobs():
    run = run_row()
    queue.put(run.pk, "local")
    assert queue.put_missing("local") == []
    assert queue.queue_of("local").get_job_ids() == [run.job_id]


def test_a_queue_that_forgot_everything_is_filled_again_under_the_same_ids():
    """The row is the truth; lost jobs of queued runs are put again, oldest first."""
    runs = [run_row(), run_row()]
    for run in runs:
        queue.put(run.pk, "local")
    claimed, elsewhere = run_row(), run_row(worker="other")
    lifecycle.claim(claimed.pk, worker="local", identity=Process(), host="h")
    django_rq.get_connection("default").flushall()
    assert queue.put_missing("local") == [run.pk for run in runs]
    assert queue.queue_of("local").get_job_ids() == [run.job_id for run in runs]
    assert queue.queue_of("other").get_job_ids() == [] and elsewhere.state == "queued"


def test_the_job_that_is_being_executed_is_not_put_again():
    run = run_row()
    assert queue.put_missing("local", running=run.job_id) == []


def test_a_job_whose_run_is_gone_or_not_queued_exits_quietly(monkeypatch):
    monkeypatch.setattr("runs.engine.execution.execute", lambda run_id: pytest.fail(f"{run_id} is executed"))
    cancelled, claimed = run_row(), run_row()
    lifecycle.request_cancel(cancelled.pk, user=None)
    lifecycle.claim(claimed.pk, worker="local", identity=Process(), host="h")
    before = list(Run.objects.order_by("pk").values())
    for run_id in (uuid.uuid4().hex, cancelled.key, claimed.key):
        jobs.run(run_id)
    assert list(Run.objects.order_by("pk").values()) == before


def test_a_start_survives_a_queue_that_cannot_be_reached(monkeypatch):
    site = ready_site()
    preview = make_preview(**site.choice())
    embedded_redis.stop()
    with monkeypatch.context() as away:
        away.setattr(embedded_redis, "ensure", lambda: None)
        run = confirm(user=site.operator, preview_id=preview.pk, token=token_of(preview))
    assert run.state == RunState.QUEUED
    assert queue.put_missing("local") == [run.pk]


class TestCleanupRequest:
    def ended(self, cleanup: Cleanup):
        run = run_row()
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        for ordinal in (1, 2, 3):
            lifecycle.record_trial(run.pk, ordinal, PASSED)
        lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=cleanup)
        run.refresh_from_db()
        return run

    def test_it_is_audited_and_put_before_waiting_runs(self):
        queue.put(run_row().pk, "local")
        run = self.ended(Cleanup.FAILED)
        assert cleaning.request_cleanup(user=person("olga", "operator"), run=run)
        assert queue.queue_of("local").get_job_ids()[0] == f"cleanup-{run.key}"
        assert AuditEntry.objects.get(kind="cleanup").run_id == run.pk

    def test_a_clean_run_needs_none_and_an_active_one_gets_none(self):
        olga = person("olga", "operator")
        assert not cleaning.request_cleanup(user=olga, run=self.ended(Cleanup.CLEAN))
        with pytest.raises(BadInput):
            cleaning.request_cleanup(user=olga, run=run_row())
        assert AuditEntry.objects.filter(kind="cleanup").count() == 0


def test_only_public_names_of_the_queue_library_are_used():
    """Nothing with a leading underscore of RQ, and no registry is edited by hand."""
    for name in ("services/queue.py", "jobs.py", "engine/worker.py"):
        source = (Path(queue.__file__).parents[1] / name).read_text()
        assert "Registry" not in source and "send_stop_job_command" not in source
        assert "._horse_pid" not in source and "worker._" not in source


def left_behind() -> Run:
    run = run_row()
    lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="worker_runtime", failure_code="x.y")
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED)
    return Run.objects.get(pk=run.pk)


def test_two_operators_who_retry_a_cleanup_at_once_get_one_attempt():
    run, people = left_behind(), [person("olga", "operator"), person("otto", "operator")]
    asked = at_once(*[lambda one=one: cleaning.request_cleanup(user=one, run=run) for one in people])
    assert asked == [True, True]
    assert queue.queue_of("local").get_job_ids() == [queue.cleanup_job_id(run.pk)]
    assert set(AuditEntry.objects.filter(kind="cleanup").values_list("actor_name", flat=True)) == {"olga", "otto"}


@pytest.mark.parametrize("ended", [JobStatus.FINISHED, JobStatus.FAILED])
def test_a_cleanup_that_was_tried_is_tried_again_when_asked_for_again(ended):
    run = left_behind()
    assert queue.put_cleanup(run.pk, "local")
    assert not queue.put_cleanup(run.pk, "local")
    job = Job.fetch(queue.cleanup_job_id(run.pk), connection=django_rq.get_connection("default"))
    queue.queue_of("local").remove(job)
    job.set_status(ended)
    assert queue.put_cleanup(run.pk, "local")
    assert queue.queue_of("local").get_job_ids() == [queue.cleanup_job_id(run.pk)]
