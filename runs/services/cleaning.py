"""What a person can do about a failed cleanup: retry it, or declare that nothing is left."""

import logging
from collections.abc import Callable

from django.db import transaction
from redis.exceptions import RedisError

from runs.models import OVER, AuditKind, Cleanup, Run, Worker
from runs.services import access, audit, lifecycle, queue
from runs.services.access import AnyUser
from runs.services.refusals import BadInput, Refusal

log = logging.getLogger(__name__)

MAX_REASON = 500


class NotDeclarable(Refusal):
    """More is known, or can be found out, than a person should have to declare (exit code 3)."""

    code = "cleanup.not_declarable"
    sentence = "The program can still find out what is left of this run, so nobody has to declare it."


class NotFailed(BadInput):
    """Only a failed cleanup can be declared resolved."""

    code = "cleanup.not_failed"
    sentence = "This run's cleanup did not fail, so there is nothing to declare."


def request_cleanup(*, user: AnyUser, run: Run, put: bool = True) -> bool:
    """Ask the run's worker to clean up again; nothing is run again and no evidence is touched. Audited.

    False when the run is clean or declared so. ``put`` is false when the caller cleans up itself, on the run's host.
    Raises ``PermissionDenied``, and ``BadInput`` for a run that has not ended. A queue that cannot be
    reached only delays it: the worker's timer retries every cleanup that failed.
    """
    person = access.require(user, access.CLEAN)
    _require_ended(run)
    if run.cleanup in OVER:
        return False
    with transaction.atomic():
        audit.record(AuditKind.CLEANUP, user=person, run_id=run.pk, detail={"cleanup": run.cleanup})
        if put:
            transaction.on_commit(lambda: _put(run))
    return True


def declare_resolved(*, user: AnyUser, run: Run, reason: str, look: Callable[[Run], None] | None = None) -> None:
    """Write down that a person looked at the host and says that nothing of ``run`` is left. Audited.

    It is never shown as verified, and changes neither verdict nor counts nor what is written of each resource. ``look``
    is given on the run's own host and raises ``NotDeclarable`` when it finds something, or when a cleanup can find out
    by itself. Elsewhere the declaration is refused while a worker serves there. Raises ``PermissionDenied``,
    ``BadInput``, ``NotDeclarable``.
    """
    person = access.require(user, access.DECLARE_HOST_LOST)
    said = " ".join(reason.split())
    if not 0 < len(said) <= MAX_REASON:
        sentence = f"A declaration needs a reason of at most {MAX_REASON} characters: who looked, where, and what for."
        raise BadInput(sentence, code="cleanup.no_reason")
    _require_ended(run)
    if run.cleanup != Cleanup.FAILED:
        raise NotFailed
    if look is not None:
        look(run)
    elif any(worker.alive for worker in Worker.objects.filter(host=run.lease_host)):
        raise NotDeclarable(
            f"A worker serves on the run's host {run.lease_host}. Declare it there, where the program can look.",
            code="cleanup.declare_there",
        )
    if not lifecycle.declare_resolved(run.pk, user=person, reason=said):
        raise NotFailed  # it became clean, or was declared, while this was looked at


def _require_ended(run: Run) -> None:
    if not run.terminal:
        raise BadInput("The run has not ended; it cleans up by itself at its end.", code="cleanup.not_ended")


def _put(run: Run) -> None:
    try:
        queue.put_cleanup(run.pk, run.worker.name)
    except RedisError:
        log.warning("the queue cannot be reached; the worker's timer cleans up after %s", run.key)
