"""How does a bundle's folder become a stored revision? Verified, copied below the data folder, stored as a draft."""

import json
import shutil
from pathlib import Path

from benchsite.lib.canonical import JsonObject, load_object
from benchsite.lib.problems import raise_if, refuse
from runs.documents.bundle.certification import RECORD_NAME, check_record
from runs.documents.bundle.manifest import LoadedBundle, verify_bundle
from runs.documents.bundle.packaged import PACKAGED, read_bundle
from runs.images.recipes import recipe_identities
from runs.models import BundleStatus, Profile, TaskBundle
from runs.ownership.scratch import scratch
from runs.services import registry, reviewing
from runs.services.access import AnyUser

PACKAGED_REVIEWER = "benchsite"
PACKAGED_NOTE = "Reviewed with the release that packages it."


def import_bundle(folder: Path, *, data: Path, user: AnyUser | None) -> TaskBundle:
    """Store the bundle in `folder`; with its certification record it is stored as certified.

    A folder outside the package is copied to `data/bundles/<name>/<revision>/`, so that the stored revision
    does not depend on a place that people work in. The same bundle twice is one row. Raises DocumentError
    with every difference between files and manifest, BundleRefused.
    """
    bundle = read_bundle(folder)
    raise_if(verify_bundle(folder, bundle, recipes=recipe_identities()))
    record = _record(folder)
    if record is not None:
        check_record(record, bundle)
    place = f"packaged:{folder.name}" if folder.parent == PACKAGED else str(_copy(folder, bundle, data))
    row = reviewing.store_bundle((folder / "manifest.json").read_bytes(), location=place, user=user)
    if row.status == BundleStatus.DRAFT and record is not None:
        row = reviewing.certify(row, record=record, user=user)
    return row


def install_packaged(name: str = "environment-smoke") -> tuple[Profile, TaskBundle]:
    """Store the profile and the bundle that ship with benchsite, with the certification and review that ship too.

    Idempotent. Raises DocumentError when files, manifest and certification do not belong together,
    BundleRefused `bundle.revision_taken` when this revision is stored with another manifest.
    """
    folder = PACKAGED / name
    bundle = read_bundle(folder)
    raise_if(verify_bundle(folder, bundle, recipes=recipe_identities()))
    record = _record(folder)
    if record is None:
        raise refuse("certification.missing", "the packaged bundle is not certified; run manage.py bundle certify")
    check_record(record, bundle)
    row = reviewing.install_packaged(
        (folder / "manifest.json").read_bytes(),
        name=name,
        certification=record,
        reviewed_by=PACKAGED_REVIEWER,
        note=PACKAGED_NOTE,
    )
    return registry.store_profile((folder / "profile.json").read_bytes(), user=None), row


def write_record(folder: Path, record: JsonObject) -> None:
    """Keep a certification's record beside the manifest that it is about."""
    (folder / RECORD_NAME).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _record(folder: Path) -> JsonObject | None:
    try:
        return load_object((folder / RECORD_NAME).read_bytes())
    except FileNotFoundError:
        return None


def _copy(folder: Path, bundle: LoadedBundle, data: Path) -> Path:
    """The folder's copy; one that is there already must be the same."""
    target = data / "bundles" / bundle.manifest.name / str(bundle.manifest.revision)
    if not target.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with scratch(data, "import") as place:
            copy = place / target.name
            copy.mkdir(mode=0o700)
            shutil.copytree(folder, copy, symlinks=True, dirs_exist_ok=True)
            try:
                copy.rename(target)
            except OSError:
                # Otherwise somebody else was first; the check below tells whether it is the same.
                if not target.exists():
                    raise
    raise_if(verify_bundle(target, bundle))
    return target
