"""Importing a bundle's folder, and installing the bundle that is packaged with benchsite."""

import json
from contextlib import suppress
from pathlib import Path

from django.db import transaction

from benchsite.lib.canonical import JsonObject, canonical_bytes, load_object
from benchsite.lib.problems import DocumentError, raise_if, refuse
from runs.documents.bundle.certification import RECORD_NAME, check_record
from runs.documents.bundle.manifest import LoadedBundle, verify_bundle
from runs.documents.bundle.packaged import PACKAGED, read_bundle
from runs.images.recipes import recipe_identities
from runs.models import BundleStatus, Profile, TaskBundle
from runs.services import bundle_files, registry, reviewing
from runs.services.access import AnyUser

PACKAGED_REVIEWER = "benchsite"
PACKAGED_NOTE = "Reviewed with the release that packages it."


def import_bundle(folder: Path, *, user: AnyUser | None) -> TaskBundle:
    """Store the bundle in `folder`, its files first; with its certification's record it is stored as certified.

    The same bundle twice is one row, and the second time what the storage lacks of it is stored again. Nothing is
    stored of a folder in the package. Raises DocumentError with every difference between files and manifest,
    BundleRefused, BundleStorageFails, OSError for a full disk.
    """
    bundle, record = _verified(folder)
    stored = reviewing.stored_revision(bundle)
    packaged = folder.name if folder.parent == PACKAGED and (stored is None or stored.packaged) else ""
    if not packaged:
        kept = canonical_bytes(record) if record is not None else b""
        if stored is not None and stored.certification:
            kept = stored.certification.encode()
        with suppress(DocumentError):  # of another row; then nothing is known to be abandoned
            bundle_files.collect_abandoned()  # before anything is found there that this import would take for stored
        bundle_files.store_files(folder, bundle, kept)
    with transaction.atomic():
        row = reviewing.store_bundle(bundle, packaged=packaged, files_stored=not packaged, user=user)
        if row.status == BundleStatus.DRAFT and record is not None:
            row = reviewing.certify(row, record=record, user=user)
    return row


def install_packaged(name: str = "environment-smoke") -> tuple[Profile, TaskBundle]:
    """Store the profile and the bundle that ship with benchsite, with the certification and review that ship too.

    Idempotent. Raises DocumentError when files, manifest and certification do not belong together,
    BundleRefused `bundle.revision_taken` when this revision is stored with another manifest.
    """
    folder = PACKAGED / name
    bundle, record = _verified(folder)
    if record is None:
        raise refuse("certification.missing", "the packaged bundle is not certified; run manage.py bundle certify")
    row = reviewing.install_packaged(
        bundle, name=name, certification=record, reviewed_by=PACKAGED_REVIEWER, note=PACKAGED_NOTE
    )
    return registry.store_profile((folder / "profile.json").read_bytes(), user=None), row


def write_record(folder: Path, record: JsonObject) -> None:
    """Keep a certification's record beside the manifest that it is about."""
    (folder / RECORD_NAME).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _verified(folder: Path) -> tuple[LoadedBundle, JsonObject | None]:
    """The bundle in a folder, and the record of its certification if there is one. Raises DocumentError."""
    bundle = read_bundle(folder)
    raise_if(verify_bundle(folder, bundle, recipes=recipe_identities()))
    try:
        record = load_object((folder / RECORD_NAME).read_bytes())
    except FileNotFoundError:
        return bundle, None
    check_record(record, bundle)
    return bundle, record
