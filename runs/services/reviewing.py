"""How a bundle becomes one that may run: stored, certified, reviewed, retired; each move by compare-and-set."""

from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchsite.lib.canonical import JsonObject, canonical_bytes
from runs.documents.bundle.manifest import LoadedBundle, load_manifest
from runs.models import AuditKind, BundleStatus, TaskBundle
from runs.services import access, audit
from runs.services.access import AnyUser
from runs.services.refusals import Refusal


class BundleRefused(Refusal):
    """A bundle cannot be moved that way; ``code`` says which rule."""

    code = "bundle.refused"


def stored_revision(bundle: LoadedBundle) -> TaskBundle | None:
    """The row of this revision, if it is stored. Raises BundleRefused when it has another manifest."""
    row = TaskBundle.objects.filter(name=bundle.manifest.name, revision=bundle.manifest.revision).first()
    if row is not None and row.manifest_sha256 != bundle.manifest_sha256:
        sentence = f"{row} is stored with another manifest; a change needs a new revision."
        raise BundleRefused(sentence, code="bundle.revision_taken")
    return row


def store_bundle(
    bundle: LoadedBundle, *, packaged: str = "", files_stored: bool = False, user: AnyUser | None
) -> TaskBundle:
    """Store a revision as a draft; one that is stored already stays as it is. Raises BundleRefused.

    Its files are in the package, below the name `packaged`; or in the storage, which `files_stored` says. A caller's
    transaction holds the row as it is, so that of two imports at once the second sees what the first made of it.
    """
    stored_at = timezone.now() if files_stored else None
    with transaction.atomic():
        row, created = TaskBundle.objects.get_or_create(
            name=bundle.manifest.name,
            revision=bundle.manifest.revision,
            defaults={
                "manifest": canonical_bytes(bundle.document).decode("ascii"),
                "manifest_sha256": bundle.manifest_sha256,
                "packaged": packaged,
                "stored_at": stored_at,
                "created_by_id": None if user is None else user.pk,
                "created_by_name": audit.name_of(user),
            },
        )
        if created:
            _audit(AuditKind.BUNDLE_IMPORT, row, user)
        elif (found := stored_revision(bundle)) is not None and files_stored and found.place == "missing":
            TaskBundle.objects.filter(pk=row.pk).update(stored_at=stored_at)
            _audit(AuditKind.BUNDLE_IMPORT, row, user, {"files_stored_again": True})
        return TaskBundle.objects.select_for_update().get(pk=row.pk)


def loaded_bundle(bundle: TaskBundle) -> LoadedBundle:
    """The typed manifest of a stored revision; raises DocumentError when the row was tampered with."""
    return load_manifest(bundle.manifest.encode())


def certify(bundle: TaskBundle, *, record: JsonObject, user: AnyUser | None) -> TaskBundle:
    """Attach the record of a passed certification (``{"passed": true, …}``): draft → certified."""
    if record.get("passed") is not True:
        raise BundleRefused(f"{bundle} did not pass its certification.", code="bundle.certification_failed")
    values = {"certification": canonical_bytes(record).decode("ascii"), "certified_at": timezone.now()}
    return _move(bundle, BundleStatus.DRAFT, BundleStatus.CERTIFIED, values, AuditKind.BUNDLE_CERTIFY, user)


def review(bundle: TaskBundle, *, user: AnyUser, note: str = "") -> TaskBundle:
    """Approve a certified revision: certified → reviewed; the revision reviewed before it is retired.

    Needs the permission to review, and another person than who imported it unless the site allows that
    (``BENCHSITE_SELF_REVIEW``, which the audit entry then names).
    """
    access.require(user, access.REVIEW_BUNDLE)
    own = bundle.created_by_id is not None and bundle.created_by_id == user.pk
    if own and not getattr(settings, "SELF_REVIEW", False):
        sentence = "You imported this revision yourself; another reviewer has to approve it."
        raise BundleRefused(sentence, code="bundle.own_revision")
    return _review(bundle, user=user, by_name=audit.name_of(user), note=note, detail={"own_revision": own})


def install_packaged(
    bundle: LoadedBundle, *, name: str, certification: JsonObject, reviewed_by: str, note: str
) -> TaskBundle:
    """Store the bundle that ships with benchsite together with its certification and its review (idempotent)."""
    with transaction.atomic():
        row = store_bundle(bundle, packaged=name, user=None)
        if row.status == BundleStatus.DRAFT:
            row = certify(row, record=certification, user=None)
        if row.status == BundleStatus.CERTIFIED:
            row = _review(row, user=None, by_name=reviewed_by, note=note, detail={"packaged": True})
    return row


def retire(bundle: TaskBundle, *, user: AnyUser) -> TaskBundle:
    """Take a reviewed revision out of use: reviewed → retired; runs that used it keep it."""
    access.require(user, access.REVIEW_BUNDLE)
    return _retire(bundle, user=user)


def _review(bundle: TaskBundle, *, user: AnyUser | None, by_name: str, note: str, detail: dict[str, Any]) -> TaskBundle:
    values = {
        "reviewed_at": timezone.now(),
        "reviewed_by_id": None if user is None else user.pk,
        "reviewed_by_name": by_name,
        "review_note": note,
    }
    try:
        with transaction.atomic():
            for earlier in TaskBundle.objects.filter(name=bundle.name, status=BundleStatus.REVIEWED):
                _retire(earlier, user=user)
            return _move(
                bundle, BundleStatus.CERTIFIED, BundleStatus.REVIEWED, values, AuditKind.BUNDLE_REVIEW, user, detail
            )
    except IntegrityError as error:
        sentence = "Another revision was reviewed at the same time; look at it first."
        raise BundleRefused(sentence, code="bundle.reviewed_meanwhile") from error


def _retire(bundle: TaskBundle, *, user: AnyUser | None) -> TaskBundle:
    values = {"retired_at": timezone.now(), "retired_by_name": audit.name_of(user)}
    return _move(bundle, BundleStatus.REVIEWED, BundleStatus.RETIRED, values, AuditKind.BUNDLE_RETIRE, user)


def _move(
    bundle: TaskBundle,
    old: BundleStatus,
    new: BundleStatus,
    values: dict[str, Any],
    kind: AuditKind,
    user: AnyUser | None,
    detail: dict[str, Any] | None = None,
) -> TaskBundle:
    with transaction.atomic():
        if not TaskBundle.objects.filter(pk=bundle.pk, status=old).update(status=new, **values):
            sentence = f"{bundle} is not {old.label.lower()}, so it cannot become {new.label.lower()}."
            raise BundleRefused(sentence, code=f"bundle.not_{old.value}")
        _audit(kind, bundle, user, detail)
    return TaskBundle.objects.get(pk=bundle.pk)


def _audit(kind: AuditKind, bundle: TaskBundle, user: AnyUser | None, detail: dict[str, Any] | None = None) -> None:
    facts = {"manifest_sha256": bundle.manifest_sha256, **(detail or {})}
    audit.record(kind, user=user, subject=str(bundle), detail=facts)


def reviewed_before(bundle: TaskBundle) -> TaskBundle | None:
    """The newest earlier revision that was once reviewed: what a review is held against."""
    earlier = TaskBundle.objects.filter(name=bundle.name, revision__lt=bundle.revision, reviewed_at__isnull=False)
    return earlier.order_by("-revision").first()
