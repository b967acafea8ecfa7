"""Exact removal of everything that a journal knows; what is not ours is never touched."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from runs.containers.deadline import CLEANUP_S, Deadline
from runs.containers.engine import Engine, EngineError, engine_call
from runs.ownership import FULL_ID, LABELS, Intent, Journal, JournalError, Kind, Outcome, Resource, ResourceStage

# An engine goes on creating after its client died, so an intent without an id is looked for this often.
LOOKS = 4
LOOK_SPAN_S = 3.0
POLL_S = 0.05
POLL_MAX_S = 0.5
# A network to which strangers are attached is refused by the engine, and only waited for this long.
ATTACHED_BOUND_S = 5.0


@dataclass(frozen=True, slots=True)
class ResourceOutcome:
    """What became of one resource; `id` and `detail` are private to operators."""

    nonce: str
    role: str
    kind: Kind
    id: str | None
    outcome: Outcome
    detail: str | None


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """One pass over a journal. `problems` are codes of failures to keep the record, such as a full disk."""

    resources: tuple[ResourceOutcome, ...]
    problems: tuple[str, ...] = ()

    @property
    def found(self) -> tuple[ResourceOutcome, ...]:
        return tuple(r for r in self.resources if r.id is not None)

    @property
    def removed(self) -> tuple[ResourceOutcome, ...]:
        return tuple(r for r in self.found if r.outcome in (Outcome.REMOVED, Outcome.ABSENT))

    @property
    def left(self) -> tuple[ResourceOutcome, ...]:
        return tuple(r for r in self.resources if r.outcome in (Outcome.UNKNOWN, Outcome.FOREIGN))

    @property
    def clean(self) -> bool:
        return not self.left and not self.problems


@dataclass(slots=True)
class _Pending:
    """One resource on its way to an outcome."""

    resource: Resource
    resource_id: str | None
    removal_requested: bool = False
    looks: int = 0
    since: float | None = None
    attached_since: float | None = None
    detail: str | None = None
    outcome: Outcome | None = None

    @property
    def intent(self) -> Intent:
        return self.resource.intent


def reconcile(
    api: Engine, journal: Journal, *, nonces: Collection[str] | None = None, deadline: Deadline | None = None
) -> CleanupReport:
    """Remove every unsettled resource of the journal (or only those of `nonces`), containers before networks.

    Goes round until each one is gone, foreign, or the deadline is over, which leaves it `unknown`. Raises only
    JournalError, when the journal cannot be read at all.
    """
    resources = [r for r in journal.read().resources if not r.settled and (nonces is None or r.nonce in nonces)]
    pending = [_Pending(r, r.resource_id) for r in resources]
    return _Pass(api, journal, deadline or Deadline(), pending).run()


def remove_owned(api: Engine, journal: Journal, nonce: str, *, bound_s: float = CLEANUP_S) -> Outcome:
    """Remove the one resource of `nonce` and record the outcome, in `bound_s` seconds. Repeating it is harmless."""
    resource = journal.read().resource(nonce)
    if resource.settled and resource.outcome is not None:
        return resource.outcome
    return reconcile(api, journal, nonces=(nonce,), deadline=Deadline(bound_s)).resources[0].outcome


def find_owned(api: Engine, intent: Intent, deadline: Deadline | None = None) -> list[str]:
    """The full ids of all resources, in any state, that carry exactly the intent's complete label tuple."""
    # An empty list of labels would match every container on the host.
    if set(intent.labels) != set(LABELS) or not all(intent.labels.values()):
        raise ValueError("only a complete label tuple may be looked for")
    filters = {"label": [f"{name}={intent.labels[name]}" for name in LABELS]}
    with engine_call(f"list {intent.kind}s", deadline):
        if intent.kind == "container":
            listed = api.containers(all=True, filters=filters)
        else:
            listed = api.networks(filters=filters)
    return [
        item["Id"] for item in listed if _carries(item.get("Labels"), intent) and FULL_ID.fullmatch(str(item.get("Id")))
    ]


def still_present(api: Engine, journal: Journal, deadline: Deadline | None = None) -> list[tuple[str, str]]:
    """(role, id) of everything that the engine still lists under a label tuple of this journal."""
    return [
        (resource.intent.role.value, resource_id)
        for resource in journal.read().resources
        for resource_id in find_owned(api, resource.intent, deadline)
    ]


def _carries(labels: object, intent: Intent) -> bool:
    return isinstance(labels, dict) and all(labels.get(name) == value for name, value in intent.labels.items())


@dataclass(slots=True)
class _Pass:
    api: Engine
    journal: Journal
    deadline: Deadline
    pending: list[_Pending]
    problems: list[str] = field(default_factory=list)

    def run(self) -> CleanupReport:
        pause = POLL_S
        while open_ones := [p for p in self.pending if p.outcome is None]:
            # Containers first; a network is tried only when none of the containers is still open.
            containers = [one for one in open_ones if one.intent.kind == "container"]
            for one in containers or open_ones:
                if not self.deadline.left:
                    break
                self._step(one)
            if not self.deadline.left:
                break
            if any(p.outcome is None for p in self.pending):
                self.deadline.pause(pause)
                pause = min(pause * 1.5, POLL_MAX_S)
        for one in self.pending:
            if one.outcome is None:
                self._resolve(one, Outcome.UNKNOWN, one.detail or "not settled within the bound")
        return CleanupReport(tuple(_reported(one) for one in self.pending), tuple(self.problems))

    def _step(self, one: _Pending) -> None:
        one.since = self.deadline.now() if one.since is None else one.since
        try:
            if one.resource_id is None:
                self._look(one)
            if one.resource_id is not None and one.outcome is None:
                self._inspect_and_remove(one, one.resource_id)
        except EngineError as error:
            one.detail = error.detail

    def _look(self, one: _Pending) -> None:
        found = find_owned(self.api, one.intent, self.deadline)
        one.looks += 1
        if len(found) > 1:
            self._resolve(one, Outcome.FOREIGN, f"{len(found)} resources carry its labels: {found[0]}, …")
        elif found:
            one.resource_id = found[0]
            self._record(lambda: self.journal.adopt(one.resource.nonce, found[0]))
        elif self._looked_enough(one):
            self._resolve(one, Outcome.ABSENT, "never found by its labels")

    def _looked_enough(self, one: _Pending) -> bool:
        if one.resource.stage is ResourceStage.FAILED or one.resource.outcome is Outcome.ABSENT:
            return True
        return one.looks >= LOOKS and self.deadline.now() - (one.since or 0.0) >= LOOK_SPAN_S

    def _inspect_and_remove(self, one: _Pending, resource_id: str) -> None:
        try:
            seen = self._inspect(one.intent.kind, resource_id)
        except EngineError as error:
            if error.status != 404:
                raise
            return self._resolve(one, Outcome.REMOVED if one.removal_requested else Outcome.ABSENT, None)
        if seen.get("Id") != resource_id or not _carries(_labels_of(one.intent.kind, seen), one.intent):
            return self._resolve(one, Outcome.FOREIGN, "its labels are not those of the journal; it was left alone")
        one.removal_requested = True
        try:
            self._remove(one.intent.kind, resource_id)
        except EngineError as error:
            self._note_refusal(one, error, seen)
        else:
            # The engine may say yes while the resource lives: only a 404 on the next look is success.
            self._inspect_after(one, resource_id)

    def _inspect_after(self, one: _Pending, resource_id: str) -> None:
        try:
            self._inspect(one.intent.kind, resource_id)
            one.detail = "the engine said that it was removed, but it is still there"
        except EngineError as error:
            one.detail = error.detail
            if error.status == 404:
                self._resolve(one, Outcome.REMOVED, None)

    def _note_refusal(self, one: _Pending, error: EngineError, seen: dict[str, Any]) -> None:
        one.detail = error.detail
        if one.intent.kind != "network" or error.status != 403:
            return
        attached = ", ".join(sorted(seen.get("Containers") or {})) or "none listed"
        one.detail = f"the network is in use by: {attached}"
        now = self.deadline.now()
        one.attached_since = now if one.attached_since is None else one.attached_since
        if now - one.attached_since >= ATTACHED_BOUND_S:
            self._resolve(one, Outcome.UNKNOWN, one.detail)

    def _inspect(self, kind: Kind, resource_id: str) -> dict[str, Any]:
        with engine_call(f"inspect {kind}", self.deadline):
            if kind == "container":
                return self.api.inspect_container(resource_id)
            return self.api.inspect_network(resource_id)

    def _remove(self, kind: Kind, resource_id: str) -> None:
        with engine_call(f"remove {kind}", self.deadline):
            if kind == "container":
                self.api.remove_container(resource_id, v=True, force=True)
            else:
                self.api.remove_network(resource_id)

    def _resolve(self, one: _Pending, outcome: Outcome, detail: str | None) -> None:
        one.outcome, one.detail = outcome, detail
        self._record(lambda: self.journal.record_outcome(one.resource.nonce, outcome, detail))

    def _record(self, write: Callable[[], None]) -> None:
        # A journal that cannot be written must not keep containers alive; it makes the cleanup fail instead.
        try:
            write()
        except JournalError as error:
            self.problems.append(error.code)
        except OSError as error:
            self.problems.append(f"os_{type(error).__name__}")


def _labels_of(kind: Kind, seen: dict[str, Any]) -> object:
    return (seen.get("Config") or {}).get("Labels") if kind == "container" else seen.get("Labels")


def _reported(one: _Pending) -> ResourceOutcome:
    return ResourceOutcome(
        nonce=one.resource.nonce,
        role=one.intent.role.value,
        kind=one.intent.kind,
        id=one.resource_id,
        outcome=one.outcome or Outcome.UNKNOWN,
        detail=one.detail,
    )
