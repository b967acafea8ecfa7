"""How is a failed cleanup tried again from the page, the admin or a command? By a job on the run's own
host."""

import logging

from django.db import transaction
from redis.exceptions import RedisError

from runs import access, audit, queue
from runs.access import AnyUser
from runs.models import AuditKind, Cleanup, Run
from runs.refusals import BadInput

log = logging.getLogger(__name__)


def request_cleanup(*, user: AnyUser, run: Run, put: bool = True) -> bool:
    """Ask the run's worker to clean up again; nothing is run again and no evidence is touched. Audited.

    False when the run is clean. ``put`` is false when the caller cleans up itself, on the run's host.
    Raises ``PermissionDenied``, and ``BadInput`` for a run that has not ended. A queue that cannot be
    reached only delays it: the worker's timer retries every cleanup that is not clean.
    """
    person = access.require(user, access.CLEAN)
    if not run.terminal:
        raise BadInput("The run has not ended; it cleans up by itself at its end.", code="cleanup.not_ended")
    if run.cleanup == Cleanup.CLEAN:
        return False
    with transaction.atomic():
        audit.record(AuditKind.CLEANUP, user=person, run_id=run.pk, detail={"cleanup": run.cleanup})
        if put:
            transaction.on_commit(lambda: _put(run))
    return True


def _put(run: Run) -> None:
    try:
        queue.put_cleanup(run.pk, run.worker.name)
    except RedisError:
        log.warning("the queue cannot be reached; the worker's timer cleans up after %s", run.key)
