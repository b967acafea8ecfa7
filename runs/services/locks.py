"""What a worker has prepared and can enforce: its report and its locks as rows."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from benchsite.lib.canonical import JsonObject, canonical_bytes
from runs.documents.spec_inputs import HarnessIdentity, ImageIdentity, WorkerIdentity
from runs.models import HarnessLock, ImageLock, Worker

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
