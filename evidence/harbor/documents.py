"""Which of Harbor's JSON documents can be read, and is it of a version that is known? Shapes of Harbor 0.22.0."""

from dataclasses import dataclass
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.strict_json import JsonProblem, load_object

MAX_RESULT_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 200_000
MAX_DEPTH = 32
TRIAL_LOCK_VERSIONS = (2,)
JOB_LOCK_VERSIONS = (3,)


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON file of Harbor. `state` is ok, missing, unreadable or unsupported; `reason` names the trouble."""

    path: str
    state: str
    content: dict[str, Any]
    reason: str = ""


def document(folder: Folder, path: str) -> Document:
    read = folder.read(path, limit=MAX_RESULT_BYTES)
    if read.state is FileState.MISSING:
        return Document(path, "missing", {})
    if read.state is not FileState.OK:
        return Document(path, "unreadable", {}, read.state.value)
    try:
        return Document(path, "ok", load_object(read.data, depth=MAX_DEPTH, items=MAX_ITEMS))
    except JsonProblem as problem:
        return Document(path, "unreadable", {}, problem.code)


def versioned(folder: Folder, path: str, known: tuple[int, ...]) -> Document:
    """A document with a schema version: an unknown one is unsupported, and nothing in it is believed."""
    found = document(folder, path)
    version = found.content.get("schema_version")
    if found.state != "ok" or (type(version) is int and version in known):
        return found
    return Document(path, "unsupported", {}, "schema_version")


def without_unknown_version(result: Document) -> Document:
    """Harbor 0.22 writes no version into results; one that has it is of a Harbor we do not know (RS12)."""
    if "schema_version" in result.content:
        return Document(result.path, "unsupported", {}, "schema_version")
    return result
