"""The jobs of runs, cleanups and endpoint tests on their worker's own queue.

The database is the truth: a lost job is put again under the same id (``put_missing``), a job whose run is not
queued any more exits quietly. Nothing is ever retried by the queue, and RQ's own stop is never used.
"""

import logging
from contextlib import suppress
from functools import partial
from uuid import UUID

from django.db import transaction
from django_rq import get_connection
from redis.exceptions import RedisError
from rq import Queue
from rq.exceptions import DuplicateJobError, NoSuchJobError
from rq.job import Job, JobStatus

from benchsite.lib import embedded_redis
from runs.models import Run, RunState

log = logging.getLogger(__name__)

JOB = "runs.jobs.run"
CLEANUP_JOB = "runs.jobs.clean_up"
CLEANUP_TIMEOUT_S = 300
ENDPOINT_TEST_JOB = "runs.jobs.test_endpoint"
ENDPOINT_TEST_TIMEOUT_S = 180
DEFAULT_RUN_LIMIT_S = 1800
BACKSTOP_S = 900  # beyond the run's own limit, which its supervisor keeps
# What became of a job stands in the database; the queue need not know it for longer.
_FORGOTTEN = {"result_ttl": 24 * 3600, "failure_ttl": 24 * 3600}
_OPEN = (JobStatus.QUEUED, JobStatus.STARTED, JobStatus.CREATED)


def queue_name(worker: str) -> str:
    """The name of a worker host's own queue: a spec is bound to the worker that was previewed."""
    return f"worker:{worker}"


def queue_of(worker: str) -> Queue:
    """The queue of worker ``worker``, on the one connection that serves all; starts the embedded server."""
    embedded_redis.ensure()
    return Queue(queue_name(worker), connection=get_connection("default"))


def enqueue_on_commit(run: Run, *, limit_s: int = DEFAULT_RUN_LIMIT_S) -> None:
    """Put the run's job once the transaction commits; nothing happens when it is rolled back.

    A Redis that cannot be reached loses nothing: the run stays queued and its worker's timer puts the job.
    """
    transaction.on_commit(partial(_put_or_leave, run.pk, run.worker.name, limit_s))


def put(run_id: UUID, worker: str, *, limit_s: int = DEFAULT_RUN_LIMIT_S) -> None:
    """Put the job of ``run_id`` now. Raises ``RedisError`` when the queue cannot be reached."""
    _enqueue(worker, JOB, run_id, job_id(run_id), limit_s + BACKSTOP_S)


def put_cleanup(run_id: UUID, worker: str) -> bool:
    """Put the job that cleans up after a run that has ended; False when one waits or works already.

    So two people who ask at once get one attempt. Raises ``RedisError``.
    """
    if _put_cleanup(run_id, worker):
        return True
    if _status(cleanup_job_id(run_id)) in _OPEN:
        return False
    with suppress(NoSuchJobError):  # an attempt that has ended; whoever else sees that may put the next one first
        Job.fetch(cleanup_job_id(run_id), connection=get_connection("default")).delete()
    return _put_cleanup(run_id, worker)


def _put_cleanup(run_id: UUID, worker: str) -> bool:
    try:
        _enqueue(worker, CLEANUP_JOB, run_id, cleanup_job_id(run_id), CLEANUP_TIMEOUT_S, at_front=True, unique=True)
    except DuplicateJobError:
        return False
    return True


def put_endpoint_test(test_id: UUID, worker: str) -> None:
    """Put the job that makes a connection test. Raises ``RedisError``."""
    _enqueue(worker, ENDPOINT_TEST_JOB, test_id, endpoint_test_job_id(test_id), ENDPOINT_TEST_TIMEOUT_S, at_front=True)


def _enqueue(worker: str, job: str, of: UUID, job_id: str, timeout_s: int, **options: bool) -> None:
    """Put a job that gets one id and is known by its own; what became of it need not be kept for long."""
    queue_of(worker).enqueue(
        job, of.hex, job_id=job_id, job_timeout=timeout_s, description=job_id, **_FORGOTTEN, **options
    )


def put_missing(worker: str, *, running: str | None = None) -> list[UUID]:
    """Put the jobs of this worker's queued runs that have none; returns those runs, oldest first.

    ``running`` is the id of the job that the worker executes right now, which is in no queue.
    """
    queue = queue_of(worker)
    waiting = {*queue.get_job_ids(), running}
    queued = Run.objects.filter(worker__name=worker, state=RunState.QUEUED).order_by("created_at")
    missing = [run for run in queued.only("id", "spec") if run.job_id not in waiting]
    for run in missing:
        put(run.pk, worker)
    return [run.pk for run in missing]


def job_id(run_id: UUID) -> str:
    return f"run-{run_id.hex}"


def endpoint_test_job_id(test_id: UUID) -> str:
    return f"endpoint-test-{test_id.hex}"


def cleanup_job_id(run_id: UUID) -> str:
    return f"cleanup-{run_id.hex}"


def _status(job: str) -> JobStatus | None:
    try:
        return Job.fetch(job, connection=get_connection("default")).get_status()
    except NoSuchJobError:
        return None


def _put_or_leave(run_id: UUID, worker: str, limit_s: int) -> None:
    try:
        put(run_id, worker, limit_s=limit_s)
    except RedisError:
        log.warning("run %s stays queued: the queue cannot be reached", run_id.hex, exc_info=True)
