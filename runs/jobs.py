"""The jobs that a worker executes; each takes an id and calls one function."""

import logging
import os

from django.conf import settings

from benchsite.lib.database import enable_database_retries
from runs.models import Cleanup, Run, RunState, Stage
from runs.outcomes.buckets import Bucket, Verdict
from runs.ownership import process_identity
from runs.services import lifecycle
from runs.services.transitions import Failure, HostBusy

log = logging.getLogger(__name__)


def run(run_id: str) -> None:
    """Execute run ``run_id`` (32 hex characters) if it is still queued; exit quietly otherwise."""
    if not Run.objects.filter(pk=run_id, state=RunState.QUEUED).exists():
        log.info("run %s is not queued; nothing to do", run_id)
        return
    enable_database_retries()
    try:
        try:
            from runs.engine.execution import execute  # only workers import the engine
        except Exception as error:
            log.exception("run %s: this worker cannot load its engine", run_id)
            _end_unexecuted(run_id, error)
        else:
            execute(run_id)
    except HostBusy:
        log.info("run %s stays queued: this host executes another run", run_id)


def _end_unexecuted(run_id: str, error: Exception) -> None:
    """End a run that this installation can never execute: its job would be put again for ever. Raises HostBusy."""
    identity = process_identity(os.getpid())
    if identity is None or not lifecycle.claim(
        run_id, worker=settings.WORKER_NAME, identity=identity, host=settings.WORKER_HOST
    ):
        return
    why = Failure(
        stage=Stage.PREFLIGHT,
        failure_class="harness",
        code="harness.unexpected",
        detail=f"{type(error).__name__}: {error}",
    )
    lifecycle.close_trials(
        run_id,
        bucket=Bucket.ERROR,
        failure_class="worker_runtime",
        failure_code="worker_runtime.not_started",
    )
    lifecycle.finish(run_id, state=RunState.FAILED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN, failure=why)


def clean_up(run_id: str) -> None:
    """Try again to clean up after run ``run_id``, which has ended; executes nothing."""
    from runs.engine.ending.recovery import retry_cleanup  # only workers import the engine

    retry_cleanup(run_id)


def test_endpoint(test_id: str) -> None:
    """Make the connection test ``test_id`` (32 hex characters) if it still waits; exit quietly otherwise."""
    from runs.engine.network.endpoint_test import make_test  # only workers import the engine

    enable_database_retries()
    make_test(test_id)
