"""Every check of the worker's side, made anew without any run.

The probe containers belong to the worker's maintenance journal, like those of its capability report.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import docker

from runs.checks.check import Check
from runs.checks.worker import RoleCeilings, ceiling_checks, report_checks
from runs.containers import EngineError, connect
from runs.documents.profile.v2 import EVIDENCE_DISK_BYTES
from runs.engine.assets import AssetError, Assets, load_assets
from runs.engine.host.maintenance import maintenance
from runs.engine.preflight.capabilities import capability_digest
from runs.engine.preflight.image_marks import mark_checks
from runs.engine.preflight.run_preflight import harness_checks, image_checks, room_checks, worker_report
from runs.ownership import Journal, JournalError


@dataclass(frozen=True, slots=True)
class ExpectedHost:
    """What rows and spec say of this worker; empty when nothing was recorded yet.

    ``images`` maps role to image id; ``limits`` None means that there is nothing to compare.
    """

    capability_sha256: str = ""
    harness_lock_sha256: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    limits: RoleCeilings | None = None
    disk_bytes: int = EVIDENCE_DISK_BYTES


@dataclass(frozen=True, slots=True)
class Host:
    """Where a worker keeps its things. ``timeout_s`` bounds one call to the engine, in seconds."""

    worker: str
    assets: Path
    maintenance: Path
    timeout_s: int


def host_checks(host: Host, expected: ExpectedHost) -> list[Check]:
    """All checks; whatever cannot be checked is a failed one with the reason. Removes what it creates."""
    assets, missing = _assets(host.assets)
    try:
        engine = partial(connect, host.timeout_s)
        with maintenance(host.maintenance, host.worker, engine) as journal:
            return [*missing, *_with_journal(host, expected, assets, journal)]
    except (JournalError, OSError) as error:
        sentence = str(getattr(error, "sentence", error))
        code = str(getattr(error, "code", "journal_unwritable"))
        return [*missing, Check("journal", False, code, sentence, "Look at BENCHSITE_DATA, then try again.")]


def _assets(root: Path) -> tuple[Assets | None, list[Check]]:
    try:
        return load_assets(root), []
    except AssetError as error:
        return None, [Check("assets", False, error.code, error.sentence, "Run manage.py prepare on this worker.")]


def _with_journal(host: Host, expected: ExpectedHost, assets: Assets | None, journal: Journal) -> Iterator[Check]:
    report = worker_report(host.worker, journal, assets)
    yield from report_checks(report)
    if expected.limits is not None:
        yield from ceiling_checks(report, expected.limits)
    if report["engine"]:
        yield from _of_engine(host, expected, assets, journal)
    if assets is not None:
        yield from harness_checks(assets)
        yield _locks(assets, expected)
    if expected.capability_sha256:
        yield _as_reported(capability_digest(report) == expected.capability_sha256)


def _of_engine(host: Host, expected: ExpectedHost, assets: Assets | None, journal: Journal) -> Iterator[Check]:
    """Images, what their containers see, disk and networks; an engine that fails meanwhile is a failed check."""
    try:
        api: docker.APIClient = connect(host.timeout_s)
        if assets is not None:
            present = list(image_checks(api, assets))
            yield from present
            if all(check.passed for check in present):
                yield from mark_checks(api, journal, assets.images)
        yield from room_checks(api, host.maintenance, expected.disk_bytes)
    except EngineError as error:
        yield Check("engine answers", False, error.code, error.sentence, "Look at the engine's own log.")


def _locks(assets: Assets, expected: ExpectedHost) -> Check:
    """What previews are bound to are the locks of the database; trials use those of the assets folder."""
    images = {image.role: image.id for image in assets.images.images}
    if (expected.harness_lock_sha256, expected.images) == (assets.harness.lock_sha256, images):
        return Check("locks recorded", True, "worker.locks_recorded", "Previews are bound to what is prepared here.")
    return Check(
        "locks recorded",
        False,
        "worker.locks_differ",
        "Another harness or other images are recorded for previews than are prepared here, or none at all.",
        "Run manage.py prepare on this worker, then preview again.",
    )


def _as_reported(same: bool) -> Check:
    if same:
        return Check("worker as reported", True, "worker.same", "The worker can do what its stored report says.")
    return Check(
        "worker as reported",
        False,
        "worker.changed",
        "The worker can do other things than its stored report says, so every previewed run would be refused.",
        "Run manage.py worker --report there, then preview again.",
    )
