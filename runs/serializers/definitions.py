"""Documents about profile files and task bundles: checked, built, certified, stored, listed."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchsite.lib.problems import Problem
from benchsite.lib.serializing import Document, serializes
from runs.documents.profile.loading import LoadedProfile
from runs.models import TaskBundle


@serializes("benchsite.profile-check/v1")
def profile_check_document(
    profile: LoadedProfile | None, problems: Sequence[Problem] = (), *, stored: bool = False
) -> Document:
    """A valid profile, or None and every problem of a file that was refused."""
    if profile is None:
        return _check(problems)
    return {
        **_check(problems),
        "name": profile.name,
        "profile_schema": profile.schema,
        "content_sha256": profile.content_sha256,
        "file_sha256": profile.file_sha256,
        "suites": list(profile.suites),
        "runnable": profile.is_runnable,
        "stored": stored,
    }


@serializes("benchsite.bundle-check/v1")
def bundle_check_document(manifest_sha256: str | None, problems: Sequence[Problem] = ()) -> Document:
    """The manifest of a bundle whose files are as it says, or None and every problem."""
    return _check(problems) if manifest_sha256 is None else {**_check(problems), "manifest_sha256": manifest_sha256}


@serializes("benchsite.bundle-build/v1")
def bundle_build_document(changed: Sequence[str], manifest_sha256: str) -> Document:
    """The files that a build changed or would change."""
    return {"changed": list(changed), "manifest_sha256": manifest_sha256}


@serializes("benchsite.bundle-certification/v1")
def bundle_certification_document(record: dict[str, Any]) -> Document:
    """The record of a certification."""
    return {"record": record}


@serializes("benchsite.bundle-import/v1")
def bundle_import_document(bundle: TaskBundle) -> Document:
    """A stored revision."""
    return _revision(bundle)


@serializes("benchsite.bundles/v1")
def bundles_document(bundles: Iterable[TaskBundle]) -> Document:
    """Every stored revision, and where its files are."""
    return {"bundles": [{**_revision(bundle), "files": bundle.place} for bundle in bundles]}


def _check(problems: Sequence[Problem]) -> Document:
    return {"valid": not problems, "problems": [problem.as_json() for problem in problems]}


def _revision(bundle: TaskBundle) -> Document:
    return {name: getattr(bundle, name) for name in ("name", "revision", "status", "manifest_sha256")}
