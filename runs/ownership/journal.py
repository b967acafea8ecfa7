"""The journal of a run's containers, networks and processes, and its fence.

Standard library only: the worker and the isolated harness use the same code on the same files.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from runs.ownership.document import (
    FULL_ID,
    MAX_BYTES,
    MAX_CONTAINERS,
    MAX_NETWORKS,
    MAX_PROCESSES,
    Fence,
    Intent,
    JournalDocument,
    JournalError,
    JournalExists,
    Kind,
    Outcome,
    OwnedProcess,
    ProcessIdentity,
    Resource,
    ResourceStage,
    Role,
    busy,
    corrupt,
    full,
    plain,
    utc_now,
)
from runs.ownership.format import dump, largest_size, load
from runs.ownership.processes import group_members, process_identity
from runs.ownership.storage import LockBusy, locked, make_lock, read_bounded, replace_whole

JOURNAL_NAME = "journal.json"
LOCK_NAME = "journal.lock"
# Longer than the engine call that may be made under the lock.
LOCK_WAIT_S = 15.0


class Slot:
    """The open place of one create call, under the journal's lock: the caller persists the id that it got."""

    def __init__(self, record: Callable[[str], None]) -> None:
        self._record = record
        self.resource_id: str | None = None
        self.refused: str | None = None

    def persist(self, resource_id: str) -> None:
        """Record the engine's full 64-hex id, durably, before anything else is done with the resource."""
        self._record(resource_id)
        self.resource_id = resource_id

    def refuse(self, detail: str) -> None:
        """Say that the engine definitely refused the call, so that nothing was created."""
        self.refused = detail


class Journal:
    """One ownership journal in its directory. Every change re-reads under the lock and is written atomically.

    With `process`, creating and starting are refused unless that pid is a process which the journal records.
    Any change may raise JournalBusy (no lock within `lock_wait_s` seconds) and JournalCorrupt.
    """

    def __init__(
        self,
        directory: Path,
        *,
        process: int | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self.directory = directory
        self._process = process
        self._lock_wait_s = lock_wait_s
        self._now = now

    @classmethod
    def create(cls, directory: Path, *, run_id: str) -> Self:
        """Make a new journal with a new ownership id. Raises JournalExists when there is one already."""
        directory.mkdir(mode=0o700, exist_ok=True)
        journal = cls(directory)
        make_lock(directory / LOCK_NAME)
        with journal._locked():
            if journal.path.exists(follow_symlinks=False):
                raise JournalExists("journal_exists", "This run already has a record of what it owns.", run_id)
            journal._store(JournalDocument(run_id, secrets.token_hex(16), journal._now()))
        return journal

    @classmethod
    def open_or_create(cls, directory: Path, *, run_id: str) -> Self:
        """The journal of a long-lived owner, such as a worker's maintenance; forgets what is gone."""
        try:
            return cls.create(directory, run_id=run_id)
        except JournalExists:
            journal = cls(directory)
            journal.compact()
            return journal

    @property
    def path(self) -> Path:
        return self.directory / JOURNAL_NAME

    def read(self) -> JournalDocument:
        """The document as it stands; needs no lock, since a write replaces the whole file at once."""
        try:
            return load(read_bounded(self.path, MAX_BYTES))
        except OSError as error:
            raise corrupt(f"{JOURNAL_NAME}: {error.strerror}") from error

    def check_open(self) -> None:
        """Raises Fenced once the fence stands."""
        self.read().require_open()

    def require_process(self, pid: int) -> None:
        """Raises JournalError `process_not_owned` unless exactly the process `pid` is in the journal."""
        identity = process_identity(pid)
        if identity is None or all(process.identity != identity for process in self.read().processes):
            raise JournalError(
                "process_not_owned",
                "This process is not the one that the run launched, so it may create nothing.",
                f"pid {pid}",
            )

    def intend(
        self,
        role: Role,
        *,
        kind: Kind = "container",
        trial: int | None = None,
        session_id: str | None = None,
        trial_uuid: str | None = None,
        image_id: str | None = None,
    ) -> Intent:
        """Record the intention to create one resource. Raises Fenced, JournalFull, `intent_refused`."""
        with self._locked():
            document = self.read()
            document.require_open()
            intent = Intent(
                document.run_id, document.owner, secrets.token_hex(16), role, kind,
                trial, session_id, trial_uuid, image_id,
            )  # fmt: skip
            intent.check()
            grown = replace(
                document, resources=(*document.resources, Resource(intent, ResourceStage.INTENDED, self._now()))
            )
            _require_room(grown)
            self._store(grown)
        return intent

    @contextmanager
    def creating(self, intent: Intent) -> Iterator[Slot]:
        """Hold the lock and the open fence around one bounded create call; the block persists the id.

        A block that ends without an id leaves the intent `unknown` (the engine may still create), or `failed`
        when it said `slot.refuse`. Raises Fenced, and JournalError `intent_spent` for a second use.
        """
        with self._locked():
            self._require_creatable(intent)
            slot = Slot(lambda resource_id: self._set_id(intent.nonce, resource_id))
            try:
                yield slot
            finally:
                if slot.resource_id is None:
                    stage = ResourceStage.UNKNOWN if slot.refused is None else ResourceStage.FAILED
                    self._set_stage(intent.nonce, stage, slot.refused or "the create call gave no id")

    @contextmanager
    def starting(self, nonce: str) -> Iterator[Resource]:
        """Hold the lock and the open fence around one bounded start call, then record `started`."""
        with self._locked():
            document = self.read()
            document.require_open()
            self._require_own_process()
            resource = document.resource(nonce)
            if resource.stage is not ResourceStage.CREATED:
                raise JournalError("not_created", "Only a created container can be started.", resource.stage)
            yield resource
            self._set_stage(nonce, ResourceStage.STARTED, None)

    def mark(self, nonce: str, stage: ResourceStage | str, *, detail: str | None = None) -> None:
        """Record how far a resource came; allowed after the fence. What is settled stays as it is."""
        with self._locked():
            self._set_stage(nonce, ResourceStage(stage), detail)

    def adopt(self, nonce: str, resource_id: str) -> None:
        """Record an id that was found late, by its complete labels; allowed after the fence."""
        with self._locked():
            self._set_id(nonce, resource_id)

    def record_outcome(self, nonce: str, outcome: Outcome, detail: str | None = None) -> None:
        """Record what an attempt at removal came to and count it; allowed after the fence."""
        with self._locked():
            document = self.read()
            changed = document.resource(nonce).after(outcome, detail, self._now())
            self._store(document.with_resource(changed))

    def fence(self, reason: str, *, wait_s: float | None = None) -> None:
        """Close the run: nothing is created or started from here on. The first reason stays.

        Raises JournalBusy when the lock is not free within `wait_s`; the caller then stops the process group
        that holds it, and fences again.
        """
        with self._locked(wait_s):
            document = self.read()
            if document.fence is None:
                self._store(replace(document, fence=Fence(self._now(), plain(reason))))

    def record_process(self, identity: ProcessIdentity, *, trial: int | None) -> None:
        """Record a launched process. Raises Fenced, so that a late child stops before it becomes anything."""
        with self._locked():
            document = self.read()
            document.require_open()
            if any(process.identity == identity for process in document.processes):
                return
            grown = replace(document, processes=(*document.processes, OwnedProcess(trial, identity)))
            if len(grown.processes) > MAX_PROCESSES:
                raise full("processes")
            _require_room(grown)
            self._store(grown)

    def compact(self) -> None:
        """Forget what is verified gone, so that a long-lived journal never fills. Not for a run's journal."""
        with self._locked():
            document = self.read()
            kept = replace(
                document,
                resources=tuple(r for r in document.resources if not r.settled),
                processes=tuple(p for p in document.processes if group_members(p.identity)),
            )
            if kept != document:
                self._store(kept)

    def _require_creatable(self, intent: Intent) -> None:
        document = self.read()
        resource = document.resource(intent.nonce)
        if resource.stage is not ResourceStage.INTENDED or resource.intent != intent:
            raise JournalError("intent_spent", "This intention was used before; make a new one.", resource.stage)
        try:
            document.require_open()
            self._require_own_process()
        except JournalError as error:
            self._set_stage(intent.nonce, ResourceStage.FAILED, f"not asked for: {error.code}")
            raise

    def _require_own_process(self) -> None:
        if self._process is not None:
            self.require_process(self._process)

    def _set_id(self, nonce: str, resource_id: str) -> None:
        if not FULL_ID.fullmatch(resource_id):
            raise JournalError("id_not_full", "The engine gave an id that is not 64 hex characters.", resource_id)
        document = self.read()
        resource = document.resource(nonce)
        if resource.settled and resource.resource_id == resource_id:
            return
        taken = {r.resource_id for r in document.resources if r.nonce != nonce}
        if resource.resource_id not in (None, resource_id) or resource_id in taken:
            raise JournalError("id_conflict", "Another id stands in the journal for this resource.", resource_id)
        found = replace(
            resource, resource_id=resource_id, stage=ResourceStage.CREATED, changed_at=self._now(), outcome=None
        )
        self._store(document.with_resource(found))

    def _set_stage(self, nonce: str, stage: ResourceStage, detail: str | None) -> None:
        document = self.read()
        resource = document.resource(nonce)
        if resource.settled:
            return
        changed = replace(resource, stage=stage, changed_at=self._now(), detail=detail and plain(detail))
        self._store(document.with_resource(changed))

    @contextmanager
    def _locked(self, wait_s: float | None = None) -> Iterator[None]:
        wait_s = self._lock_wait_s if wait_s is None else wait_s
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.directory / LOCK_NAME, wait_s))
            except LockBusy:
                raise busy(wait_s) from None
            except OSError as error:
                raise corrupt(f"{LOCK_NAME}: {error.strerror}") from error
            yield

    def _store(self, document: JournalDocument) -> None:
        data = dump(document)
        load(data)
        replace_whole(self.path, data)


def _require_room(document: JournalDocument) -> None:
    """Room for the fence and for every outcome is kept free, so that a full journal never blocks them."""
    if document.count("container") > MAX_CONTAINERS:
        raise full("containers")
    if document.count("network") > MAX_NETWORKS:
        raise full("networks")
    if largest_size(document) > MAX_BYTES:
        raise full("bytes")
