"""The records of an ownership journal, their bounds and its errors."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

SCHEMA = "anvil-serving.benchmark-owned-resources/v1"
LABEL_RUN = "benchsite.run"
LABEL_OWNER = "benchsite.owner"
LABEL_NONCE = "benchsite.nonce"
LABEL_ROLE = "benchsite.role"
LABELS = (LABEL_RUN, LABEL_OWNER, LABEL_NONCE, LABEL_ROLE)

MAX_BYTES = 64 * 1024
MAX_CONTAINERS = 16
MAX_NETWORKS = 8
MAX_PROCESSES = 16
MAX_TEXT = 200
MAX_COUNT = 10**9
CONFIRM_AFTER_S = 20.0

FULL_ID = re.compile(r"[0-9a-f]{64}")

Kind = Literal["container", "network"]
KINDS: tuple[Kind, ...] = ("container", "network")


class Role(StrEnum):
    AGENT = "agent"
    VERIFIER = "verifier"
    GATEWAY = "gateway"
    PROBE = "probe"
    NETWORK = "network"


class ResourceStage(StrEnum):
    """How far a resource came. `removed` and `absent` say that the engine answered 404 or found nothing."""

    INTENDED = "intended"
    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"
    REMOVED = "removed"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    FAILED = "failed"


class Outcome(StrEnum):
    """What the last attempt to remove a resource came to. Only the first two are success (design 4)."""

    REMOVED = "removed"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"


class JournalError(Exception):
    """Base of the journal's errors: a stable `code`, a `sentence` for people, a private `detail`."""

    def __init__(self, code: str, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.detail = detail


class JournalCorrupt(JournalError):
    """The journal cannot be believed: nothing may be created, and the file is kept as it is."""


class JournalFull(JournalError):
    """A bound of the journal is reached: nothing more may be created."""


class JournalBusy(JournalError):
    """The journal's lock was not free within the bounded wait."""


class JournalExists(JournalError):
    """There is a journal in this directory already."""


class Fenced(JournalError):
    """The fence stands: no intent, create or start is accepted any more."""


def corrupt(detail: str) -> JournalCorrupt:
    return JournalCorrupt(
        "journal_corrupt",
        "The record of what this run owns cannot be read. Nothing more will be created or removed; "
        "an operator must look at the journal file, which is kept.",
        detail,
    )


def full(what: str) -> JournalFull:
    return JournalFull(
        "journal_full", "The run reached the bound of what it may own, so nothing more is created.", what
    )


def busy(wait_s: float) -> JournalBusy:
    return JournalBusy(
        "journal_busy",
        "The record of what this run owns is held by another process. Try again in a moment.",
        f"not free within {wait_s} s",
    )


def utc_now() -> str:
    """The wall time as ISO-8601 UTC with microseconds and a Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def plain(text: str) -> str:
    """`text` as at most MAX_TEXT printable ASCII characters, so that its size in the journal is bounded."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:MAX_TEXT])


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for another: a pid alone proves nothing (design 4).

    `start_ticks` is field 22 of /proc/<pid>/stat, clock ticks since boot `boot_id`.
    """

    pid: int
    start_ticks: int
    pgid: int
    sid: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class OwnedProcess:
    trial: int | None
    identity: ProcessIdentity


@dataclass(frozen=True, slots=True)
class Fence:
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class Intent:
    """The right to create exactly one container or network, which will carry `labels`."""

    run_id: str
    owner: str
    nonce: str
    role: Role
    kind: Kind = "container"
    trial: int | None = None
    session_id: str | None = None
    trial_uuid: str | None = None
    image_id: str | None = None

    def check(self) -> None:
        """Raises JournalError `intent_refused` for facts that the journal could not hold as they are."""
        texts = (self.session_id, self.trial_uuid, self.image_id)
        if any(text is not None and plain(text) != text for text in texts):
            raise JournalError("intent_refused", "The names of this trial are too long or not plain.", "")
        if (self.kind == "network") != (self.role is Role.NETWORK):
            raise JournalError("intent_refused", "The kind and the role of this resource disagree.", self.role)
        if self.trial is not None and not 1 <= self.trial <= MAX_COUNT:
            raise JournalError("intent_refused", "A trial is counted from 1.", str(self.trial))

    @property
    def labels(self) -> dict[str, str]:
        """The complete tuple that a resource of this intent carries."""
        return {
            LABEL_RUN: self.run_id,
            LABEL_OWNER: self.owner,
            LABEL_NONCE: self.nonce,
            LABEL_ROLE: self.role.value,
        }


@dataclass(frozen=True, slots=True)
class Resource:
    """One intent and what became of it. `attempts` counts the attempts at removal."""

    intent: Intent
    stage: ResourceStage
    changed_at: str
    resource_id: str | None = None
    outcome: Outcome | None = None
    detail: str | None = None
    attempts: int = 0

    @property
    def nonce(self) -> str:
        return self.intent.nonce

    @property
    def settled(self) -> bool:
        """Nothing of it can be left: a 404 for its id, or not found and again not found a while later."""
        gone = (Outcome.REMOVED, Outcome.ABSENT)
        return self.stage in (ResourceStage.REMOVED, ResourceStage.ABSENT) and self.outcome in gone

    def after(self, outcome: Outcome, detail: str | None, now: str) -> "Resource":
        """This resource after one more attempt at removal, which is counted.

        What is settled stays settled: an id once answered with 404 never comes back. An intent whose id was
        never known stays at stage `unknown` until a second look CONFIRM_AFTER_S seconds later, since an
        engine goes on creating after its client died.
        """
        attempts = min(self.attempts + 1, MAX_COUNT)
        if self.settled:
            return replace(self, attempts=attempts)
        stage, changed_at = ResourceStage(outcome.value), now
        if outcome is Outcome.ABSENT and self.resource_id is None and self.stage is not ResourceStage.FAILED:
            repeated = self.outcome is Outcome.ABSENT
            changed_at = self.changed_at if repeated else now
            since = datetime.fromisoformat(now) - datetime.fromisoformat(changed_at)
            confirmed = repeated and since.total_seconds() >= CONFIRM_AFTER_S
            stage = ResourceStage.ABSENT if confirmed else ResourceStage.UNKNOWN
        return replace(
            self,
            stage=stage,
            changed_at=changed_at,
            outcome=outcome,
            detail=None if detail is None else plain(detail),
            attempts=attempts,
        )


@dataclass(frozen=True, slots=True)
class JournalDocument:
    run_id: str
    owner: str
    created_at: str
    resources: tuple[Resource, ...] = ()
    processes: tuple[OwnedProcess, ...] = ()
    fence: Fence | None = None

    def resource(self, nonce: str) -> Resource:
        """The resource of this nonce; JournalError `unknown_nonce` when the journal never heard of it."""
        for resource in self.resources:
            if resource.nonce == nonce:
                return resource
        raise JournalError("unknown_nonce", "This resource is not in the journal of the run.", nonce)

    def count(self, kind: Kind) -> int:
        return sum(1 for resource in self.resources if resource.intent.kind == kind)

    def require_open(self) -> None:
        if self.fence is not None:
            raise Fenced(
                "fenced",
                "The run is being stopped, so nothing more is created or started.",
                self.fence.reason,
            )

    def with_resource(self, changed: Resource) -> "JournalDocument":
        return replace(self, resources=tuple(changed if r.nonce == changed.nonce else r for r in self.resources))
