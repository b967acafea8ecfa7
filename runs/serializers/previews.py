"""Documents about what could be started: preview and preflight."""

from collections.abc import Iterable

from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.canonical import load_object
from benchsite.lib.serializing import Document, serializes, timestamp
from runs.documents.run_spec import Spec
from runs.models import Preview, Worker
from runs.services.preview_checks import Check


@serializes("benchsite.preview/v1")
def preview_document(preview: Preview) -> Document:
    """A preview with its spec, or without one where none could be resolved."""
    return {
        "preview": preview.id.hex,
        "spec_sha256": preview.spec_sha256 or None,
        "spec": load_object(preview.spec.encode()) if preview.spec else None,
        "checks": preview.checks,
        "blocked": bool(preview.blocking),
        "accept": [check["name"] for check in preview.to_accept],
        "expires_at": timestamp(preview.expires_at),
    }


@serializes("benchsite.preflight/v1")
def preflight_document(
    name: str, host: str, worker: Worker | None, spec: Spec | None, checks: Iterable[Check], *, stored: bool
) -> Document:
    """The checks of worker ``name``, which may not be registered yet; ``stored``: by its report, made earlier."""
    found = list(checks)
    reported_at = worker.reported_at if worker else None
    age = words.between(reported_at, timezone.now())
    return {
        "worker": name,
        "host": host,
        "stored": stored,
        "reported_at": timestamp(reported_at),
        "reported_age_s": None if age is None else round(max(0.0, age), 1),
        "spec_sha256": None if spec is None else spec.spec_sha256,
        "blocked": any(check["level"] == "block" and not check["passed"] for check in found),
        "checks": found,
    }
