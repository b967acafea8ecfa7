"""Connection tests of endpoints: a person asks for one, a worker makes it, a row keeps what came of it.

Only the row's id crosses the queue, and the web knows nothing of the engine.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from redis.exceptions import RedisError

from runs.checks.check import Check
from runs.documents.credentials import EVIDENCE_CHECK
from runs.models import AuditKind, ConnectionOutcome, ConnectionState, Endpoint, EndpointStop, EndpointTest, Worker
from runs.models.endpoint_tests import WAITS_AT_MOST
from runs.services import access, audit, endpoint_switch, queue
from runs.services.access import AnyUser
from runs.services.refusals import Refusal

log = logging.getLogger(__name__)

STOPPED = "endpoint.stopped"

_NOT_TAKEN_UP = "The worker did not make it in time. Is it running, and is it carrying out a long run? Ask again."
_INTERRUPTED = "The worker's process ended while it was made. Ask again."
_NO_QUEUE = "The queue could not be reached. Start Redis, and ask again."


class CannotTest(Refusal):
    """This endpoint cannot be tested from this worker (exit code 3)."""

    code = "endpoint_test.refused"


def may_test(user: AnyUser) -> bool:
    """Operators may, and who may register endpoints."""
    return access.may(user, access.START) or access.may(user, access.REGISTER_ENDPOINT)


def request_test(*, user: AnyUser, endpoint: Endpoint, worker: Worker) -> tuple[EndpointTest, bool]:
    """Ask ``worker`` to test the connection to ``endpoint``; audited, and put on its queue once this commits.

    Gives the test, and whether it is new: while one is open, asking again gives that one. Raises
    ``PermissionDenied``, and ``CannotTest`` for a version that is not in use or a worker declared lost.
    """
    if not may_test(user):
        raise PermissionDenied(access.Refused(access.START).sentence)
    if not endpoint.active:
        raise CannotTest(f"{endpoint} is replaced or retired. Test the version that is in use.")
    if stop := endpoint_switch.stopped(endpoint.name):
        raise CannotTest(stopped_sentence(stop), code=STOPPED)
    if worker.lost_declared_at is not None:
        raise CannotTest(f"Worker {worker.name} was declared lost. Start it again, or choose another one.")
    overdue = EndpointTest.objects.filter(
        Q(endpoint=endpoint, worker=worker), requested_at__lt=timezone.now() - WAITS_AT_MOST
    )
    code = "endpoint_test.not_taken_up"
    _close(overdue, outcome=ConnectionOutcome.NOT_MADE, failure_code=code, failure=_NOT_TAKEN_UP)
    open_ones = EndpointTest.objects.filter(endpoint=endpoint, worker=worker).exclude(state=ConnectionState.DONE)
    try:
        with transaction.atomic():
            test = EndpointTest.objects.create(endpoint=endpoint, worker=worker, requested_by_name=audit.name_of(user))
            detail = {"test": test.pk.hex, "version": endpoint.version, "worker": worker.name}
            audit.record(AuditKind.ENDPOINT_TEST, user=user, subject=endpoint.name, detail=detail)
            transaction.on_commit(partial(_put, test.pk, worker.name))
    except IntegrityError:
        present = open_ones.first()
        if present is None:
            raise
        return present, False
    return test, True


def stopped_sentence(stop: EndpointStop) -> str:
    """Why there is no test of an endpoint that was stopped."""
    return f"{stop.name} was stopped by {stop.stopped_by_name} ({stop.reason}). An administrator can allow it again."


def claim(test_id: str, *, worker: str) -> EndpointTest | None:
    """Take a waiting test that is this worker's and not overdue; None when there is none to take."""
    since = timezone.now() - WAITS_AT_MOST
    mine = EndpointTest.objects.filter(pk=test_id, worker__name=worker, requested_at__gte=since)
    if not mine.filter(state=ConnectionState.WAITING).update(state=ConnectionState.RUNNING):
        return None
    return EndpointTest.objects.select_related("endpoint", "worker").get(pk=test_id)


def finish(test: EndpointTest, checks: Iterable[Check], *, seconds: float | None) -> bool:
    """Keep what was found. False when it was closed meanwhile."""
    found = list(checks)
    return _close(
        EndpointTest.objects.filter(pk=test.pk),
        outcome=outcome_of(found),
        checks=[check.as_json() for check in found],
        seconds=seconds,
    )


def not_made(test_id: UUID, code: str, sentence: str) -> bool:
    """Say why a test could not be made."""
    tests = EndpointTest.objects.filter(pk=test_id)
    return _close(tests, outcome=ConnectionOutcome.NOT_MADE, failure_code=code[:64], failure=sentence[:500])


def put_missing(worker: str, *, running: str | None = None) -> list[UUID]:
    """Put the jobs of this worker's waiting tests that have none, because the queue was lost or whoever took the job
    died before it began; returns those tests. ``running`` is the job at work. Raises ``RedisError``.
    """
    since = timezone.now() - WAITS_AT_MOST
    waiting = EndpointTest.objects.filter(
        worker__name=worker, state=ConnectionState.WAITING, requested_at__gte=since
    ).values_list("pk", flat=True)
    present = {*queue.queue_of(worker).get_job_ids(), running} if waiting else set()
    missing = [test for test in waiting if queue.endpoint_test_job_id(test) not in present]
    for test in missing:
        queue.put_endpoint_test(test, worker)
    return missing


def close_lost(worker: str) -> bool:
    """Say of this worker's tests that are being made that they were not: it starts, or whoever made one is gone."""
    tests = EndpointTest.objects.filter(worker__name=worker, state=ConnectionState.RUNNING)
    return _close(
        tests, outcome=ConnectionOutcome.NOT_MADE, failure_code="endpoint_test.interrupted", failure=_INTERRUPTED
    )


def outcome_of(checks: list[Check]) -> ConnectionOutcome:
    """Ready only when every check of the connection holds."""
    if any(check.refuses for check in checks):
        return ConnectionOutcome.NOT_READY
    proved = [check.passed for check in checks if check.name != EVIDENCE_CHECK]
    return ConnectionOutcome.READY if proved and all(proved) else ConnectionOutcome.UNPROVED


def last_tests(endpoint: Endpoint) -> list[EndpointTest]:
    """The newest test of this version from each worker, by the workers' names."""
    newest: dict[int, EndpointTest] = {}
    for test in EndpointTest.objects.filter(endpoint=endpoint).select_related("worker").order_by("-requested_at")[:50]:
        newest.setdefault(test.worker_id, test)
    return sorted(newest.values(), key=lambda test: test.worker.name)


def last_result(endpoint: Endpoint, worker: Worker) -> EndpointTest | None:
    """The newest test of this version from this worker that was made."""
    made = EndpointTest.objects.filter(endpoint=endpoint, worker=worker, state=ConnectionState.DONE)
    return made.exclude(outcome=ConnectionOutcome.NOT_MADE).order_by("-ended_at").first()


def _close(tests: Any, **values: Any) -> bool:
    """End those that are open, once."""
    still_open = tests.exclude(state=ConnectionState.DONE)
    return bool(still_open.update(state=ConnectionState.DONE, ended_at=timezone.now(), **values))


def _put(test_id: UUID, worker: str) -> None:
    try:
        queue.put_endpoint_test(test_id, worker)
    except RedisError:
        log.warning("the queue cannot be reached; the connection test %s is not made", test_id.hex)
        not_made(test_id, "endpoint_test.no_queue", _NO_QUEUE)
