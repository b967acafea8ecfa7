"""The strict, bounded JSON form of a journal on disk."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from benchsite.lib import strict_json
from runs.ownership.document import (
    FULL_ID,
    KINDS,
    MAX_BYTES,
    MAX_CONTAINERS,
    MAX_COUNT,
    MAX_NETWORKS,
    MAX_PROCESSES,
    MAX_TEXT,
    SCHEMA,
    Fence,
    Intent,
    JournalCorrupt,
    JournalDocument,
    Outcome,
    OwnedProcess,
    ProcessIdentity,
    Resource,
    ResourceStage,
    Role,
    corrupt,
    plain,
    utc_now,
)

MAX_DEPTH = 4
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SECRET_HEX = re.compile(r"[0-9a-f]{32}")


def dump(document: JournalDocument) -> bytes:
    """The canonical JSON of the document, as UTF-8 (which is ASCII)."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "run_id": document.run_id,
            "owner": document.owner,
            "created_at": document.created_at,
            "resources": [_resource_json(resource) for resource in document.resources],
            "processes": [_process_json(process) for process in document.processes],
            "fence": None if document.fence is None else {"at": document.fence.at, "reason": document.fence.reason},
        },
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    ).encode()


def largest_size(document: JournalDocument) -> int:
    """Bytes the document could grow to by outcomes and the fence alone, without one more entry."""
    text = '"' * MAX_TEXT
    grown = (
        replace(
            resource,
            resource_id="f" * 64,
            stage=ResourceStage.INTENDED,
            outcome=Outcome.REMOVED,
            detail=text,
            attempts=MAX_COUNT,
        )
        for resource in document.resources
    )
    return len(dump(replace(document, resources=tuple(grown), fence=Fence(utc_now(), text))))


def load(data: bytes) -> JournalDocument:
    """Read a journal's bytes strictly: closed keys, exact types, bounds. Raises JournalCorrupt."""
    try:
        document = _document(strict_json.load(data, size=MAX_BYTES, depth=MAX_DEPTH))
    except JournalCorrupt:
        raise
    except strict_json.JsonProblem as problem:
        raise corrupt(f"the journal is not strict JSON: {problem.code} {problem.detail}".rstrip()) from problem
    except (ValueError, TypeError) as error:
        raise corrupt(f"{type(error).__name__}: {plain(str(error))}") from error
    _check_unique(document)
    return document


def _resource_json(resource: Resource) -> dict[str, Any]:
    intent = resource.intent
    return {
        "nonce": intent.nonce,
        "kind": intent.kind,
        "role": intent.role.value,
        "trial": intent.trial,
        "session_id": intent.session_id,
        "trial_uuid": intent.trial_uuid,
        "image_id": intent.image_id,
        "resource_id": resource.resource_id,
        "stage": resource.stage.value,
        "changed_at": resource.changed_at,
        "outcome": None if resource.outcome is None else resource.outcome.value,
        "detail": resource.detail,
        "attempts": resource.attempts,
    }


def _process_json(process: OwnedProcess) -> dict[str, Any]:
    identity = process.identity
    return {
        "trial": process.trial,
        "pid": identity.pid,
        "start_ticks": identity.start_ticks,
        "pgid": identity.pgid,
        "sid": identity.sid,
        "boot_id": identity.boot_id,
    }


@dataclass(slots=True)
class _Reader:
    """Takes the fields of one JSON object by name and type; missing, extra or mistyped is corrupt."""

    where: str
    fields: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, where: str, value: object, keys: Iterable[str]) -> "_Reader":
        if not isinstance(value, dict) or set(value) != set(keys):
            raise corrupt(f"{where} does not have exactly its fields")
        return cls(where, value)

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self.fields[key]
        if not isinstance(value, str) or len(value) > MAX_TEXT or plain(value) != value:
            raise corrupt(f"{self.where}.{key} is not a short text")
        if pattern is not None and not pattern.fullmatch(value):
            raise corrupt(f"{self.where}.{key} does not have its form")
        return value

    def time(self, key: str) -> str:
        value = self.text(key)
        if datetime.fromisoformat(value).utcoffset() is None:
            raise corrupt(f"{self.where}.{key} has no time zone")
        return value

    def number(self, key: str, low: int, high: int) -> int:
        value = self.fields[key]
        if type(value) is not int or not low <= value <= high:
            raise corrupt(f"{self.where}.{key} is not a number from {low} to {high}")
        return value

    def maybe[T](self, key: str, take: Callable[..., T], *rest: object) -> T | None:
        return None if self.fields[key] is None else take(key, *rest)

    def items(self, key: str, limit: int) -> list[Any]:
        value = self.fields[key]
        if not isinstance(value, list) or len(value) > limit:
            raise corrupt(f"{self.where}.{key} is not a list of at most {limit}")
        return value


_DOCUMENT_KEYS = ("schema", "run_id", "owner", "created_at", "resources", "processes", "fence")
_RESOURCE_KEYS = (
    "nonce", "kind", "role", "trial", "session_id", "trial_uuid", "image_id",
    "resource_id", "stage", "changed_at", "outcome", "detail", "attempts",
)  # fmt: skip
_PROCESS_KEYS = ("trial", "pid", "start_ticks", "pgid", "sid", "boot_id")


def _document(value: object) -> JournalDocument:
    if isinstance(value, dict) and value.get("schema") != SCHEMA:
        raise corrupt("the journal's schema is not known")
    reader = _Reader.of("journal", value, _DOCUMENT_KEYS)
    run_id, owner = reader.text("run_id", _NAME), reader.text("owner", _SECRET_HEX)
    return JournalDocument(
        run_id=run_id,
        owner=owner,
        created_at=reader.time("created_at"),
        resources=tuple(
            _resource(item, run_id, owner) for item in reader.items("resources", MAX_CONTAINERS + MAX_NETWORKS)
        ),
        processes=tuple(_process(item) for item in reader.items("processes", MAX_PROCESSES)),
        fence=_fence(reader.fields["fence"]),
    )


def _resource(value: object, run_id: str, owner: str) -> Resource:
    reader = _Reader.of("resource", value, _RESOURCE_KEYS)
    kind = reader.text("kind")
    if kind not in KINDS:
        raise corrupt("resource.kind is not known")
    intent = Intent(
        run_id=run_id,
        owner=owner,
        nonce=reader.text("nonce", _SECRET_HEX),
        role=Role(reader.text("role")),
        kind=kind,
        trial=reader.maybe("trial", reader.number, 1, MAX_COUNT),
        session_id=reader.maybe("session_id", reader.text),
        trial_uuid=reader.maybe("trial_uuid", reader.text),
        image_id=reader.maybe("image_id", reader.text),
    )
    outcome = reader.maybe("outcome", reader.text)
    return Resource(
        intent=intent,
        stage=ResourceStage(reader.text("stage")),
        changed_at=reader.time("changed_at"),
        resource_id=reader.maybe("resource_id", reader.text, FULL_ID),
        outcome=None if outcome is None else Outcome(outcome),
        detail=reader.maybe("detail", reader.text),
        attempts=reader.number("attempts", 0, MAX_COUNT),
    )


def _process(value: object) -> OwnedProcess:
    reader = _Reader.of("process", value, _PROCESS_KEYS)
    identity = ProcessIdentity(
        pid=reader.number("pid", 2, 2**31),
        start_ticks=reader.number("start_ticks", 0, 2**63),
        pgid=reader.number("pgid", 2, 2**31),
        sid=reader.number("sid", 0, 2**31),
        boot_id=reader.text("boot_id"),
    )
    return OwnedProcess(reader.maybe("trial", reader.number, 1, MAX_COUNT), identity)


def _fence(value: object) -> Fence | None:
    if value is None:
        return None
    reader = _Reader.of("fence", value, ("at", "reason"))
    return Fence(reader.time("at"), reader.text("reason"))


def _check_unique(document: JournalDocument) -> None:
    nonces = [resource.nonce for resource in document.resources]
    ids = [resource.resource_id for resource in document.resources if resource.resource_id is not None]
    if len(set(nonces)) != len(nonces) or len(set(ids)) != len(ids):
        raise corrupt("two resources share a nonce or an id")
    if any((r.intent.kind == "network") != (r.intent.role is Role.NETWORK) for r in document.resources):
        raise corrupt("a resource's kind and role disagree")
