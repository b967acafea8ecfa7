"""The record, in a run's folder, of the files from which a secret was removed, with their hashes before and after."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.reading.proofs import mapping

SCHEMA = "benchsite.redactions/v1"
REDACTIONS_PATH = "evidence/redactions.json"
MAX_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Redaction:
    """One file: its hash before anything was removed, its hash now, the number of places, and its size before in bytes:
    -1 in a record of before it was kept, where it fits no file."""

    original_sha256: str
    sha256: str
    replaced: int
    original_size: int = -1


def read_redactions(folder: Folder) -> dict[str, Redaction]:
    """The record by path; empty when there is none or it cannot be read, which fails the files' comparisons."""
    read = folder.read(REDACTIONS_PATH, limit=MAX_BYTES)
    if read.state is not FileState.OK:
        return {}
    try:
        document = load_object(read.data, items=50_000)
    except JsonProblem:
        return {}
    files = mapping(document.get("files")) if document.get("schema") == SCHEMA else {}
    return {
        path: Redaction(str(entry.get("original_sha256")), str(entry.get("sha256")), entry["replaced"], _size(entry))
        for path, entry in files.items()
        if isinstance(entry, dict) and type(entry.get("replaced")) is int
    }


def _size(entry: dict[str, object]) -> int:
    size = entry.get("original_size")
    return size if type(size) is int else -1


def write_redactions(directory: Path, redactions: Mapping[str, Redaction]) -> None:
    target = directory / REDACTIONS_PATH
    target.parent.mkdir(mode=0o700, exist_ok=True)
    document = {"schema": SCHEMA, "files": {path: asdict(found) for path, found in redactions.items()}}
    temporary = target.with_name(".redactions.json.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    temporary.replace(target)
