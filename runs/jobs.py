"""What runs on a worker? Jobs that load nothing but an id and call one function."""

import logging

from runs.lifecycle import HostBusy
from runs.models import Run, RunState
from runs.patience import be_patient

log = logging.getLogger(__name__)


def run(run_id: str) -> None:
    """Execute run ``run_id`` (32 hex characters) if it is still queued; exit quietly otherwise (JQ08,
    JQ11)."""
    if not Run.objects.filter(pk=run_id, state=RunState.QUEUED).exists():
        log.info("run %s is not queued; nothing to do", run_id)
        return
    from runs.engine.execution import execute  # only workers import the engine

    be_patient()
    try:
        execute(run_id)
    except HostBusy:
        log.info("run %s stays queued: this host executes another run", run_id)


def clean_up(run_id: str) -> None:
    """Try again to clean up after run ``run_id``, which has ended; executes nothing."""
    from runs.engine.recovery import retry_cleanup  # only workers import the engine

    retry_cleanup(run_id)


def test_endpoint(test_id: str) -> None:
    """Make the connection test ``test_id`` (32 hex characters) if it still waits; exit quietly otherwise."""
    from runs.engine.connection import make_test  # only workers import the engine

    be_patient()
    make_test(test_id)
