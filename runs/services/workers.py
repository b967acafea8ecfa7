"""Workers as rows: what became of a worker's process, and the removal of one that never had a run."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from benchsite.lib import words
from runs.models import AuditEntry, AuditKind, EndpointTest, Preview, Run, Worker
from runs.services import access, audit
from runs.services.access import AnyUser
from runs.services.refusals import Refusal


class Condition(NamedTuple):
    """The shape that pages draw (``attention``, ``unseen``, ``running``, ``held``), and the word."""

    kind: str
    word: str


def condition(worker: Worker, now: datetime) -> Condition:
    """What became of a worker's process, as every page and command says it.

    A clean stop clears the pid and leaves the time; a killed process leaves both, and falls silent.
    """
    if worker.lost_declared_at is not None:
        return Condition("attention", "Declared lost")
    if worker.heartbeat_at is None:
        return Condition("unseen", "Never started")
    if worker.pid is None:
        return Condition("unseen", f"Stopped {words.ago(worker.heartbeat_at, now)}")
    if not worker.alive:
        return Condition("attention", f"No heartbeat since {words.minute(worker.heartbeat_at, now)}")
    if worker.draining:
        return Condition("running", "Draining")
    return Condition("running" if getattr(worker, "active_runs", 0) else "held", "Serving")


class CannotRemove(Refusal):
    """The worker serves, or runs name it (exit code 3). Nothing was removed."""

    code = "worker.not_removable"


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes with a worker's row: how many previews that started nothing, and connection tests."""

    previews: int
    tests: int
    refusal: CannotRemove | None


def removal_of(worker: Worker) -> Removal:
    """What removing ``worker`` would take along, or why it is refused."""
    previews = Preview.objects.filter(worker=worker).count()
    tests = EndpointTest.objects.filter(worker=worker).count()
    return Removal(previews, tests, _refusal(worker))


def remove_worker(*, user: AnyUser, worker: Worker) -> bool:
    """Remove the row of ``worker`` with its locks, its previews and its connection tests. Audited.

    False when it was removed before: of two at once, one removes it. Raises ``PermissionDenied``, and ``CannotRemove``
    for a worker that serves (``worker.still_serving``) or that any run names (``worker.had_runs``).
    """
    person = access.require(user, access.REMOVE_WORKER)
    found = Worker.objects.filter(pk=worker.pk).first()
    if found is None:
        return False
    if refusal := _refusal(found):
        raise refusal
    try:
        return _remove(found, person)
    except (ProtectedError, IntegrityError) as error:  # a run or a preview of it came in between
        raise CannotRemove(_BUSY.format(name=found.name), detail=str(error)) from error


def was_removed(name: str) -> bool:
    """Whether a worker of this name was there once and was removed."""
    return AuditEntry.objects.filter(kind=AuditKind.WORKER_REMOVE, subject=name).exists()


_BUSY = "{name} was used while it was being removed, so it is still there. Look again."
_SERVING = "{name} was heard from just now. Stop its process first."
_HAD_RUNS = (
    "{name} is named by {runs}, which keep it as a part of their record. Declare its host lost to take it out of use."
)


def _refusal(worker: Worker) -> CannotRemove | None:
    if worker.alive:
        return CannotRemove(_SERVING.format(name=worker.name), code="worker.still_serving")
    if runs := Run.objects.filter(worker=worker).count():
        said = _HAD_RUNS.format(name=worker.name, runs=words.counted(runs, "run"))
        return CannotRemove(said, code="worker.had_runs")
    return None


def _remove(worker: Worker, person: AnyUser) -> bool:
    with transaction.atomic():
        previews, _ = Preview.objects.filter(worker=worker, consumed_by__isnull=True).delete()
        tests, _ = EndpointTest.objects.filter(worker=worker).delete()
        _, gone = Worker.objects.filter(pk=worker.pk).delete()
        if not gone.get("runs.Worker"):
            return False
        detail = {"host": worker.host, "previews": previews, "tests": tests}
        audit.record(AuditKind.WORKER_REMOVE, user=person, subject=worker.name, detail=detail)
    return True
