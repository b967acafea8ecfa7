"""Retention: how long private evidence is kept, what is never removed, and what a removal leaves.

Removed are the private files of a run, its log lines, and the copies of both in the run's folder on its worker host.
Rows, counts, verdict, the public suite result and provenance stay, and so does the hash of every removed file. A run
that is not over, whose cleanup is not clean, or on which a legal hold lies, keeps everything.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from evidence.models import READABLE, Artifact, ArtifactState, LegalHold
from evidence.register import store
from runs.models import OVER, TERMINAL_STATES, AuditKind, Run
from runs.services import access, audit, runlog
from runs.services.access import AnyUser
from runs.services.refusals import BadInput, Refusal

type FolderRemover = Callable[[str], bool]
"""Removes what a run's folder on this host holds besides its journal; whether there was anything."""


class Held(Refusal):
    code = "retention.held"
    sentence = "A legal hold lies on this run; release it before its evidence can be removed."


@dataclass(frozen=True, slots=True)
class Expiry:
    """What one run loses or would lose. ``folder`` says whether its folder on this host is part of it."""

    run: Run
    files: int
    bytes: int
    log_lines: int
    folder: bool

    @property
    def anything(self) -> bool:
        return bool(self.files or self.log_lines or self.folder)


def hold(*, user: AnyUser, run: Run, reason: str) -> LegalHold:
    """Place a legal hold. Audited; one that lies there already stays as it is. Raises PermissionDenied, BadInput."""
    person = access.require(user, access.RETAIN)
    reason = reason.strip()
    if not 1 <= len(reason) <= 500:
        raise BadInput("reason: say in 1 to 500 characters why this evidence must be kept.", code="retention.no_reason")
    with transaction.atomic():
        _locked(run)
        placed, created = LegalHold.objects.get_or_create(
            run=run, released_at=None, defaults={"reason": reason, "placed_by_name": audit.name_of(person)}
        )
        if created:
            audit.record(AuditKind.LEGAL_HOLD, user=person, run_id=run.pk, detail={"placed": reason})
    return placed


def release(*, user: AnyUser, run: Run) -> bool:
    """Release the hold on a run; whether there was one. Audited. Raises PermissionDenied."""
    person = access.require(user, access.RETAIN)
    with transaction.atomic():
        open_hold = LegalHold.objects.filter(run=run, released_at=None)
        hit = open_hold.update(released_at=timezone.now(), released_by_name=audit.name_of(person))
        if hit:
            audit.record(AuditKind.LEGAL_HOLD, user=person, run_id=run.pk, detail={"released": True})
    return bool(hit)


def held(run: Run) -> LegalHold | None:
    """The hold that lies on a run."""
    return LegalHold.objects.filter(run=run, released_at=None).first()


def due(moment: datetime) -> Iterator[Run]:
    """The runs that ended before ``moment`` and may lose their evidence, the oldest first."""
    found = _ended_before(moment).filter(~Exists(_HOLD), cleanup__in=OVER)
    yield from found.defer("spec").order_by("ended_at", "pk").iterator(chunk_size=200)


def kept_back(moment: datetime) -> dict[str, int]:
    """How many runs that ended before ``moment`` keep everything: ``held`` by a legal hold, or ``not_clean``."""
    ended = _ended_before(moment)
    return {
        "held": ended.filter(Exists(_HOLD)).count(),
        "not_clean": ended.filter(~Exists(_HOLD)).exclude(cleanup__in=OVER).count(),
    }


_HOLD = LegalHold.objects.filter(run=OuterRef("pk"), released_at=None)


def _ended_before(moment: datetime) -> QuerySet[Run]:
    return Run.objects.filter(state__in=list(TERMINAL_STATES), ended_at__lt=moment)


def what_expires(run: Run, *, folder: bool) -> Expiry:
    """What there is to remove of a run; changes nothing."""
    sizes = list(_private(run).values_list("size", flat=True))
    return Expiry(run, len(sizes), sum(sizes), run.log_lines.count(), folder)


def expire(*, user: AnyUser, run: Run, remove_folder: FolderRemover | None = None) -> Expiry:
    """Remove a run's private evidence. Audited and repeatable: a removal that was cut short is completed.

    ``remove_folder`` is given when the run's folder lies on this host. Raises PermissionDenied, Held, BadInput for a
    run that is not over or not clean, OSError when a file cannot be removed.
    """
    person = access.require(user, access.RETAIN)
    with transaction.atomic():
        locked = _locked(run)
        if not locked.terminal or locked.cleanup not in OVER:
            raise BadInput("The run has not ended and cleaned up, so it keeps its evidence.", code="retention.not_over")
        if held(run) is not None:
            raise Held
        # The folder first: it may be refused, and then the register has to be as it was.
        folder = remove_folder is not None and remove_folder(run.key)
        done = Expiry(run, *_remove_files(run), runlog.clear(run.pk), folder)
        if done.anything:
            detail = {"files": done.files, "bytes": done.bytes, "log_lines": done.log_lines, "folder": done.folder}
            audit.record(AuditKind.EXPIRE, user=person, run_id=run.pk, detail=detail)
    return done


def _locked(run: Run) -> Run:
    """The run's row, held until the transaction ends: a hold and a removal never pass each other."""
    return Run.objects.select_for_update().defer("spec").get(pk=run.pk)


def _private(run: Run) -> QuerySet[Artifact]:
    kept = Q(state__in=[state.value for state in READABLE]) | ~Q(stored="")
    return Artifact.objects.filter(kept, run=run, public=False)


def _remove_files(run: Run) -> tuple[int, int]:
    """(files, bytes). Rows stay, with path, hash and size, and say when their file was removed."""
    files = size = 0
    note = f"by retention on {timezone.now():%Y-%m-%d}"
    for artifact in _private(run):
        files, size = files + 1, size + artifact.size
        store.delete(artifact)
        artifact.state, artifact.note = ArtifactState.REMOVED, note
        artifact.source_size, artifact.size = artifact.source_size or artifact.size, 0
        artifact.save()
    return files, size
