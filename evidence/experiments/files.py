"""The bytes that were handed in with a job: hashed when they come in, kept under their hash, always private."""

import hashlib
import os
from collections.abc import Iterable

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from benchsite.lib.folder import Folder, UnsafePath, printable
from evidence.imports.description import FileEntry
from evidence.imports.documents import MAX_FILE_BYTES
from evidence.imports.identity import hashed
from evidence.models import READABLE, ArtifactState, Experiment, ExperimentFile, ExperimentTrial
from evidence.register.store import Hashing, asking

# What a result is derived from: kept even when nothing else of a trial is.
SOURCES = frozenset({
    "result.json", "config.json", "lock.json", "verifier/reward.json", "verifier/reward.txt", "agent/trajectory.json",
})  # fmt: skip
_LONGEST_PATH = 1024


def stored_files(
    folder: Folder, base: str, entries: Iterable[FileEntry], *, experiment_id: str, all_of_them: bool
) -> list[ExperimentFile]:
    """Rows, not saved yet, of the files below `base` of a job; their bytes are stored.

    A process that was killed here leaves files that the next import of the same experiment finds by their hash.
    """
    return [
        _row(folder, base, entry, f"experiments/{hashed(experiment_id)}")
        for entry in entries
        if all_of_them or entry.path in SOURCES
    ]


def place(
    rows: Iterable[ExperimentFile], experiment: Experiment, trial: ExperimentTrial | None
) -> list[ExperimentFile]:
    """The rows with what they belong to."""
    placed = list(rows)
    for row in placed:
        row.experiment, row.trial = experiment, trial
    return placed


def _row(folder: Folder, base: str, entry: FileEntry, place: str) -> ExperimentFile:
    path = printable(entry.path)
    row = ExperimentFile(
        path=path[:_LONGEST_PATH], state=ArtifactState(entry.state.value), size=0, note=entry.detail[:200]
    )
    if entry.size and row.state not in READABLE:
        row.note = f"{entry.size:,} bytes" if not row.note else row.note
    if len(path) > _LONGEST_PATH or row.state not in READABLE:
        row.state = ArtifactState.UNREADABLE if row.state in READABLE else row.state
        row.note = row.note or "its path is too long"
        return row
    try:
        with folder.open(f"{base}/{entry.path}" if base else entry.path) as (handle, _):
            data = _read(handle)
    except (OSError, UnsafePath):
        row.state, row.note = ArtifactState.UNREADABLE, "it could not be read when it was taken"
        return row
    if data is None:
        row.state, row.note = ArtifactState.TOO_LARGE, f"more than {MAX_FILE_BYTES:,} bytes"
        return row
    row.sha256, row.size = hashlib.sha256(data).hexdigest(), len(data)
    row.state = ArtifactState.OK if data else ArtifactState.EMPTY
    row.stored = _store(f"{place}/{row.sha256}", data, row.sha256)
    return row


def _read(handle: int) -> bytes | None:
    with os.fdopen(os.dup(handle), "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    return data if len(data) <= MAX_FILE_BYTES else None


def _store(name: str, data: bytes, sha256: str) -> str:
    """Keep the bytes under this name; what a killed process left there in part is replaced."""
    with asking():
        if default_storage.exists(name):
            with default_storage.open(name, "rb") as file:
                if Hashing(file).read_all() == (sha256, len(data)):
                    return name
            default_storage.delete(name)
        return default_storage.save(name, ContentFile(data))
