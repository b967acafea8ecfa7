"""Checks of the files that went into a container: the attendant's record against the bundle's reviewed manifest.

The manifest is kept with the run and believed only by its hash, which the confirmed spec holds (design 6): it leaves no
unhashed input.
"""

from typing import Any

from benchsite.lib.canonical import canonical_sha256
from benchsite.lib.folder import FileState, Folder
from benchsite.lib.problems import DocumentError
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.reading.observed import AGENT, VERIFIER, CopiedFile, Observed, Transfer
from evidence.reading.proofs import Proof, equal, mapping, sequence
from evidence.trial.agent_output import UNDECLARED
from evidence.trial.course import Course, environment_course
from runs.documents.run_spec import RunSpec, SpecTask

MANIFEST_PATH = "manifest.json"
MAX_MANIFEST_BYTES = 256 * 1024
_CODE = "integrity.reviewed_files"
# What is sent into a container of each role: the purpose of the transfer, its place there, the folder of the task.
SENT = ((VERIFIER, "tests", "/tests", "tests/"), (AGENT, "environment", "/app", "environment/"))


def read_manifest(folder: Folder, spec: RunSpec | None) -> tuple[dict[str, Any], Proof]:
    """The reviewed manifest, empty when it is not the confirmed one, and the check that says so."""
    read = folder.read(MANIFEST_PATH, limit=MAX_MANIFEST_BYTES)
    document, problem = _parsed(read.data) if read.state is FileState.OK else ({}, read.state.value)
    if document and _sha256(document) != (spec.bundle.manifest_sha256 if spec else None):
        document, problem = {}, "another manifest"
    return document, Proof("bundle.manifest", "integrity.manifest_mismatch", not problem, problem)


def reviewed_checks(manifest: dict[str, Any], task: SpecTask, observed: Observed) -> list[Proof]:
    """Every file that was sent as a part of the task is the reviewed one, and none is missing or added."""
    entry = _entry(manifest, task)
    checks = [
        equal("task.reviewed", "integrity.task_checksum", entry.get("checksum"), task.checksum),
        equal("task.reviewed_files", "integrity.task_checksum", entry.get("files_sha256"), task.files_sha256),
    ]
    for role, purpose, place, below in SENT:
        files = _files(entry, below)
        for transfer in sent(observed, role, purpose):
            checks.append(Proof(f"sent.{purpose}", _CODE, _is_reviewed(transfer, place, files), transfer.path))
    return checks


def sent_proof(manifest: dict[str, Any], task: SpecTask, observed: Observed) -> Proof:
    """The agent was given the task's files: one that saw none of them did not do this task."""
    needed = bool(_files(_entry(manifest, task), "environment/"))
    given = bool(sent(observed, AGENT, "environment"))
    return Proof("proof.task_files", "invalid_evaluation.proof_missing", given or not needed, "no task files were sent")


def course_of(manifest: dict[str, Any], task: SpecTask) -> Course:
    """The course of the task's trial: its outputs are those of the reviewed manifest, and what Harbor always offers."""
    declared = [str(path).rstrip("/") for path in sequence(_entry(manifest, task).get("artifacts"))]
    return environment_course(tuple(dict.fromkeys((*declared, UNDECLARED))))


def _parsed(data: bytes) -> tuple[dict[str, Any], str]:
    try:
        return load_object(data, items=20_000), ""
    except JsonProblem as problem:
        return {}, problem.code


def _sha256(document: dict[str, Any]) -> str | None:
    try:
        return canonical_sha256(document)
    except DocumentError:
        return None


def _entry(manifest: dict[str, Any], task: SpecTask) -> dict[str, Any]:
    named = (entry for entry in map(mapping, sequence(manifest.get("tasks"))) if entry.get("name") == task.name)
    return next(named, {})


def _files(entry: dict[str, Any], below: str) -> set[CopiedFile]:
    """The reviewed files of one folder of the task, named as from there."""
    files = map(mapping, sequence(entry.get("files")))
    return {
        CopiedFile(str(file.get("path")).removeprefix(below), file.get("size", -1), str(file.get("sha256")))
        for file in files
        if str(file.get("path")).startswith(below)
    }


def sent(observed: Observed, role: str, purpose: str) -> list[Transfer]:
    """What arrived; an upload that failed is a failure of its own."""
    return [
        item
        for item in observed.transfers
        if (item.role, item.purpose, item.direction, item.outcome) == (role, purpose, "upload", "ok")
    ]


def _is_reviewed(transfer: Transfer, place: str, files: set[CopiedFile]) -> bool:
    # A task has at most 200 files, and the record names as many, so the list is always whole.
    whole = len(transfer.entries) == transfer.files == len(files)
    return whole and transfer.path == place and set(transfer.entries) == files
