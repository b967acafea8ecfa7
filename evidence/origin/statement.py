"""What is signed: in-toto statements about one run, written canonically and read strictly.

A worker's statement is over the run's folder: every file with size and hash, the one hash of the tree, the spec, and
what the run amounts to. A site's is over the documents that it publishes, and names the worker's statement.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchsite.lib.foreign_files import is_foreign
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.origin.public_keys import parse_time
from evidence.reading.tree import MAX_FILES, TreeFile, tree_sha256

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TYPES = {"worker": "urn:benchsite:run:v1", "site": "urn:benchsite:publication:v1"}
COUNTS = ("requested", "evaluated", "passed", "failed", "error", "cancelled")
SUITE_PATH, PROVENANCE_PATH = "evidence/suite.json", "evidence/provenance.json"
RUN_ENVELOPE, SUITE_ENVELOPE = "evidence/run.dsse.json", "evidence/suite.dsse.json"
PUBLISHED = (SUITE_PATH, PROVENANCE_PATH)
_SHA256 = re.compile("[0-9a-f]{64}")
_FIELDS = {"role", "run_id", "spec_sha256", "verdict", "counts", "signed_at", "by"}
_OF_WORKER = {"folder_sha256", "trials", "cleanup", "quarantined", "files", "stored_otherwise", "replaces"}


class StatementProblem(ValueError):
    """A payload that is no statement of ours, or that contradicts itself; `sentence` says why."""

    code = "statement.invalid"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Trial:
    """What one trial amounts to: its bucket, and the code of why."""

    trial: int
    bucket: str
    code: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of the folder that the register does not hold as it is: with another hash (an end of a log), or not."""

    state: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. `published` maps the documents that are published to their SHA-256.

    Of a worker's: `files` are those of the folder, `cleanup` and `quarantined` are what the verdict was given with,
    `replaces` are the payload hashes of earlier statements about this run. Of a site's: `statement_sha256` is the
    payload hash of the worker's, None when the worker signed none.
    """

    role: str
    run_id: str
    spec_sha256: str
    verdict: str
    counts: Mapping[str, int]
    signed_at: datetime
    by: str
    published: Mapping[str, str]
    files: tuple[TreeFile, ...] = ()
    stored_otherwise: Mapping[str, Stored] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()
    cleanup: str = ""
    quarantined: bool = False
    replaces: tuple[str, ...] = ()
    statement_sha256: str | None = None

    @property
    def folder_sha256(self) -> str:
        """The hash of the folder that `classify --folder-sha256` asks for."""
        return tree_sha256(file for file in self.files if not is_foreign(file.path))


def write_statement(statement: Statement) -> bytes:
    """The payload: canonical JSON, so that the same facts always give the same bytes."""
    predicate: dict[str, Any] = {
        "role": statement.role,
        "run_id": statement.run_id,
        "spec_sha256": statement.spec_sha256,
        "verdict": statement.verdict,
        "counts": dict(statement.counts),
        "signed_at": statement.signed_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "by": statement.by,
    }
    subjects = dict(statement.published)
    if statement.role == "worker":
        subjects[f"runs/{statement.run_id}"] = statement.folder_sha256
        predicate |= {
            "folder_sha256": statement.folder_sha256,
            "trials": [[trial.trial, trial.bucket, trial.code] for trial in statement.trials],
            "cleanup": statement.cleanup,
            "quarantined": statement.quarantined,
            "files": [[file.path, file.size, file.sha256] for file in statement.files],
            "stored_otherwise": {
                path: [stored.state, stored.size, stored.sha256] for path, stored in statement.stored_otherwise.items()
            },
            "replaces": list(statement.replaces),
        }
    else:
        predicate["statement_sha256"] = statement.statement_sha256
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": TYPES[statement.role],
        "predicate": predicate,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def read_statement(payload: bytes) -> Statement:
    """One statement of exactly our form. Raises StatementProblem."""
    try:
        document = load_object(payload, items=10 * MAX_FILES)
    except JsonProblem as problem:
        raise StatementProblem(f"It is not one strict JSON object ({problem.code}).") from problem
    try:
        return _statement(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, StatementProblem):
            raise
        raise StatementProblem("A field is missing or of the wrong kind.") from error


def _statement(document: dict[str, Any]) -> Statement:
    _require(document.keys() == {"_type", "subject", "predicateType", "predicate"}, "It is no in-toto statement.")
    _require(document["_type"] == STATEMENT_TYPE, "It is no in-toto statement of version 1.")
    predicate = _of(document["predicate"], dict)
    role = predicate["role"]
    _require(role in TYPES and document["predicateType"] == TYPES[role], "Its type is not that of its role.")
    own = _OF_WORKER if role == "worker" else {"statement_sha256"}
    _require(predicate.keys() == _FIELDS | own, "It has not exactly the fields of its type.")
    subjects = _subjects(document["subject"])
    run_id = _of(predicate["run_id"], str)
    moment = parse_time(predicate["signed_at"])
    if moment is None:
        raise StatementProblem("Its time is no moment in UTC.")
    counts = _counts(predicate["counts"])
    more: dict[str, Any] = {}
    if role == "worker":
        more = _of_worker(predicate, counts)
        _require(subjects.pop(f"runs/{run_id}", None) == predicate["folder_sha256"], "Its subject is another folder.")
    else:
        more["statement_sha256"] = _maybe_sha256(predicate["statement_sha256"])
        _require(SUITE_PATH in subjects, "Its subject is no suite result.")
    _require(subjects.keys() <= set(PUBLISHED), "It has a subject that is none of a run's documents.")
    statement = Statement(
        role=role,
        run_id=run_id,
        spec_sha256=_sha256(predicate["spec_sha256"]),
        verdict=_of(predicate["verdict"], str),
        counts=counts,
        signed_at=moment,
        by=_of(predicate["by"], str),
        published=subjects,
        **more,
    )
    if role == "worker" and statement.folder_sha256 != predicate["folder_sha256"]:
        raise StatementProblem("The hash of the folder is not that of the files that are listed.")
    return statement


def _of_worker(predicate: dict[str, Any], counts: dict[str, int]) -> dict[str, Any]:
    files = [
        TreeFile(_of(path, str), _number(size), _maybe_sha256(digest)) for path, size, digest in predicate["files"]
    ]
    names = [file.path for file in files]
    _require(names == sorted(set(names)), "Its files are not sorted, or one is listed twice.")
    trials = [Trial(_number(number), _of(bucket, str), _of(code, str)) for number, bucket, code in predicate["trials"]]
    _require(len(trials) == counts["requested"], "It has not as many trials as were requested.")
    for bucket in ("passed", "failed", "error", "cancelled"):
        found = sum(trial.bucket == bucket for trial in trials)
        _require(found == counts[bucket], "Its counts are not those of its trials.")
    otherwise = {
        path: Stored(_of(state, str), _number(size), _maybe_sha256(digest))
        for path, (state, size, digest) in _of(predicate["stored_otherwise"], dict).items()
    }
    _require(predicate["cleanup"] in ("clean", "failed"), "Its cleanup is neither clean nor failed.")
    _require(otherwise.keys() <= set(names), "It says of a file how it is stored that it does not list.")
    return {
        "files": tuple(files),
        "stored_otherwise": otherwise,
        "trials": tuple(trials),
        "cleanup": predicate["cleanup"],
        "quarantined": _of(predicate["quarantined"], bool),
        "replaces": tuple(_sha256(found) for found in _of(predicate["replaces"], list)),
    }


def _subjects(found: object) -> dict[str, str]:
    subjects = {}
    for subject in _of(found, list):
        _require(subject.keys() == {"name", "digest"} and subject["digest"].keys() == {"sha256"}, "An odd subject.")
        _require(subject["name"] not in subjects, "A subject is named twice.")
        subjects[_of(subject["name"], str)] = _sha256(subject["digest"]["sha256"])
    return subjects


def _counts(found: object) -> dict[str, int]:
    counts = {name: _number(value) for name, value in _of(found, dict).items()}
    _require(counts.keys() == set(COUNTS), "It has not exactly the counts of a run.")
    whole = counts["evaluated"] == counts["passed"] + counts["failed"]
    whole = whole and counts["requested"] == counts["evaluated"] + counts["error"] + counts["cancelled"]
    _require(whole, "Its counts do not add up.")
    return counts


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise StatementProblem(sentence)


def _of[T](value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError
    return value


def _number(value: object) -> int:
    number = _of(value, int)
    _require(0 <= number < 2**63, "A number in it is out of range.")
    return number


def _sha256(value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise StatementProblem("A hash in it is none.")
    return value


def _maybe_sha256(value: object) -> str | None:
    return None if value is None else _sha256(value)
