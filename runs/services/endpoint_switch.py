"""The switch of an endpoint: stops all of its traffic at once, on every worker, until it is allowed again.

Whoever makes traffic looks at it: previews and confirmations, connection tests, and each gateway while it lives
(`runs.engine.network.switched`). It belongs to the endpoint's name, so no version of a record gets around it.
"""

from django.core.exceptions import PermissionDenied
from django.db import transaction

from benchsite.lib.database import retrying_database
from runs.models import TERMINAL_STATES, AuditKind, EndpointStop, Run
from runs.services import access, audit, lifecycle
from runs.services.access import AnyUser
from runs.services.refusals import BadInput
from runs.services.transitions import CancelOutcome

MAX_REASON = 300


def may_stop(user: AnyUser) -> bool:
    """Whoever may cancel runs, and whoever may register endpoints."""
    return access.may(user, access.CANCEL) or access.may(user, access.REGISTER_ENDPOINT)


def may_allow(user: AnyUser) -> bool:
    """Only whoever may register endpoints: what an operator stopped, an administrator looks at."""
    return access.may(user, access.REGISTER_ENDPOINT)


@retrying_database
def stopped(name: str) -> EndpointStop | None:
    """The stop of this endpoint, None while it is allowed."""
    return EndpointStop.objects.filter(name=name).first()


def stop(*, user: AnyUser, name: str, reason: str) -> list[Run]:
    """Stop the endpoint and ask for the end of its runs, which are returned. Audited; repeating it changes no reason.

    ``name`` is a registered endpoint's. Raises PermissionDenied, and BadInput without a reason.
    """
    if not may_stop(user):
        raise PermissionDenied(access.Refused(access.CANCEL).sentence)
    reason = reason.strip()
    if not reason or len(reason) > MAX_REASON or not reason.isprintable():
        sentence = f"reason: say in one line of at most {MAX_REASON} characters why the endpoint is stopped."
        raise BadInput(sentence, code="input.bad_reason")
    who = {"stopped_by_id": user.pk, "stopped_by_name": audit.name_of(user)}
    with transaction.atomic():
        _, new = EndpointStop.objects.get_or_create(name=name, defaults={"reason": reason, **who})
        open_runs = Run.objects.filter(endpoint__name=name).exclude(state__in=TERMINAL_STATES)
        ends = (CancelOutcome.CANCELLED, CancelOutcome.REQUESTED)
        ended = [run for run in open_runs if lifecycle.request_cancel(run.pk, user=user) in ends]
        if new or ended:
            detail = {"reason": reason, "runs": [run.key for run in ended]}
            audit.record(AuditKind.ENDPOINT_STOP, user=user, subject=name, detail=detail)
    return ended


def allow(*, user: AnyUser, name: str) -> bool:
    """Allow its traffic again; runs that were ended stay so. False when it was not stopped. Raises PermissionDenied."""
    access.require(user, access.REGISTER_ENDPOINT)
    with transaction.atomic():
        gone, _ = EndpointStop.objects.filter(name=name).delete()
        if gone:
            audit.record(AuditKind.ENDPOINT_ALLOW, user=user, subject=name)
    return bool(gone)
