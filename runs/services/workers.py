"""Workers as rows: what became of a worker's process, its removal, its report, and what it has prepared (its locks)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.canonical import JsonObject, canonical_bytes
from runs.documents.spec_inputs import HarnessIdentity, ImageIdentity, WorkerIdentity
from runs.models import AuditEntry, AuditKind, EndpointTest, HarnessLock, ImageLock, Preview, Run, Worker
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


_HARNESS_FIELDS = tuple(HarnessIdentity.__dataclass_fields__)


def record_report(name: str, report: JsonObject, *, capability_sha256: str, host: str) -> Worker:
    """Store a worker's capability report with the digest that specs are bound to; makes the row if need be."""
    worker, _created = Worker.objects.get_or_create(name=name)
    Worker.objects.filter(pk=worker.pk).update(
        host=host,
        report=canonical_bytes(report).decode("ascii"),
        capability_sha256=capability_sha256,
        reported_at=timezone.now(),
    )
    return Worker.objects.get(pk=worker.pk)


def record_harness_lock(name: str, document: JsonObject) -> HarnessLock:
    """Store what ``prepare`` locked as the worker's current harness.

    ``document`` holds at least the fields of ``HarnessIdentity`` as text.
    """
    identity = _harness_identity(document)
    with transaction.atomic():
        worker, _created = Worker.objects.get_or_create(name=name)
        HarnessLock.objects.filter(worker=worker, current=True).update(current=False)
        lock, _created = HarnessLock.objects.update_or_create(
            worker=worker,
            lock_sha256=identity.lock_sha256,
            tree_sha256=identity.tree_sha256,
            defaults={"document": canonical_bytes(document).decode("ascii"), "current": True},
        )
    return lock


def record_image_locks(name: str, images: Mapping[str, JsonObject]) -> list[ImageLock]:
    """Store the worker's current image of each role: role → ``{"image_id", "recipe_sha256", …}``."""
    locks = []
    with transaction.atomic():
        worker, _created = Worker.objects.get_or_create(name=name)
        for role, document in sorted(images.items()):
            ImageLock.objects.filter(worker=worker, role=role, current=True).update(current=False)
            lock, _created = ImageLock.objects.update_or_create(
                worker=worker,
                role=role,
                image_id=str(document["image_id"]),
                defaults={
                    "recipe_sha256": str(document["recipe_sha256"]),
                    "document": canonical_bytes(document).decode("ascii"),
                    "current": True,
                },
            )
            locks.append(lock)
    return locks


def worker_identity(worker: Worker) -> WorkerIdentity:
    return WorkerIdentity(worker.name, worker.capability_sha256)


def harness_of(worker: Worker) -> HarnessIdentity:
    """The current harness lock; all fields are empty when there is none, which no spec accepts."""
    lock = worker.harness_locks.filter(current=True).first()
    return _harness_identity({} if lock is None else json.loads(lock.document))


def images_of(worker: Worker) -> dict[str, ImageIdentity]:
    """Role → the current image of the worker's image lock."""
    return {
        lock.role: ImageIdentity(lock.image_id, lock.recipe_sha256) for lock in worker.image_locks.filter(current=True)
    }


def report_of(worker: Worker) -> dict[str, Any]:
    """The stored capability report; empty when the worker never reported."""
    return json.loads(worker.report) if worker.report else {}


def _harness_identity(document: Mapping[str, Any]) -> HarnessIdentity:
    return HarnessIdentity(**{field: str(document.get(field, "")) for field in _HARNESS_FIELDS})
