"""The attendant's record of one trial, parsed.

Reads `observed.jsonl`: one canonical JSON object per line, numbered from 0. Our own side writes it outside every
container, so it is the proof that classification rests on; it is read as strictly as what others write: each line is
one of the closed types below, byte for byte as the attendant writes it, and says nothing that contradicts itself.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from evidence.reading.clocks import is_recorded
from runs.documents.ceilings import TRANSFER_BYTES
from runs.wire.copies import MAX_ENTRIES, Entry, combined_sha256
from runs.wire.tar_reader import MAX_REFUSALS

# What the attendant writes at most; its longest line lists 200 files with names of a kilobyte.
MAX_BYTES = 8 * 1024 * 1024
MAX_EVENTS = 2_000
MAX_LINE_BYTES = 1024 * 1024
MAX_TRANSFERS = 64  # a trial has at most fifteen: the task's files and logs, and four outputs and a place of Harbor's
MAX_NAMED = 64  # warnings, writable folders, kinds of what was refused
MAX_PROBLEMS = 20
DURATION_SLACK_S = 1.0
AGENT = "agent"
VERIFIER = "verifier"
REDACTED = "[REDACTED]"

Role = Literal["agent", "verifier"]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=2**53)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Event(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="event"):
    """What every line has: its number, the wall time, and seconds of the host's monotonic clock."""

    seq: Count
    at: str
    mono: Seconds
    role: Role


class Launched(Event, frozen=True, kw_only=True, tag="launched"):
    role: None  # type: ignore[assignment]
    network_namespace: Literal[True]
    detail: None


class OpenedLimits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the engine says is in force: CPUs, bytes, counts, and bytes of each writable folder."""

    cpus: float
    memory_bytes: int
    pids: int | None
    nofile: int | None
    tmpfs: Annotated[dict[str, int | None], Meta(max_length=MAX_NAMED)]


class Opened(Event, frozen=True, kw_only=True, tag="opened"):
    """A container as the engine showed it; `network` is None when it has none. `warnings` are the engine's own words
    on what it did not do as asked."""

    trial: int
    trial_uuid: str
    session_id: str
    image_id: str
    container_id: str
    limits: OpenedLimits
    network: str | None
    warnings: Annotated[list[str], Meta(max_length=MAX_NAMED)]


class Exec(Event, frozen=True, kw_only=True, tag="exec"):
    """One command; `mono` is its end and `started_mono` its start."""

    purpose: Literal["setup", "agent", "verifier", "version", "other"]
    exit_code: int | None
    duration_s: Seconds
    started_mono: Seconds
    timed_out: bool
    cancelled: bool
    orphaned: bool
    output_bytes: Count
    output_truncated: bool

    @property
    def ended(self) -> bool:
        return self.exit_code is not None


class CopiedFile(Struct, frozen=True, forbid_unknown_fields=True, eq=False):
    """`modified` is the time that the file had in its container, seconds since 1970; a download alone records it, and
    the same file is the same at any time."""

    path: str
    size: Count
    sha256: Sha256
    modified: int | UnsetType | None = UNSET

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CopiedFile) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)

    @property
    def _same(self) -> tuple[str, int, str]:
        return self.path, self.size, self.sha256


class Refusal(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    code: str


class Transfer(Event, frozen=True, kw_only=True, tag="transfer"):
    """One transfer; `entries` lists at most 200 of its `files`, `kept` is relative to the trial's folder."""

    direction: Literal["upload", "download"]
    purpose: Literal["environment", "tests", "artifacts_in", "agent_logs", "artifact", "verifier_logs"]
    path: str
    outcome: Literal["ok", "partial", "source_absent", "refused", "failed"]
    code: str | None
    files: Count
    size: Count
    sha256: Sha256 | None
    kept: str | None
    entries: Annotated[tuple[CopiedFile, ...], Meta(max_length=MAX_ENTRIES)]
    refusals: Annotated[tuple[Refusal, ...], Meta(max_length=MAX_REFUSALS)] | UnsetType = UNSET
    counted: Annotated[dict[str, Count], Meta(max_length=MAX_NAMED)] | UnsetType = msgspec.field(
        default=UNSET, name="refused"
    )

    @property
    def refused(self) -> dict[str, int]:
        """What stood among the files and was not taken, counted by code; before December 2026 only listed."""
        if self.counted is not UNSET:
            return self.counted
        return {} if self.refusals is UNSET else dict(Counter(refusal.code for refusal in self.refusals))


class Space(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of a writable folder; None is not known."""

    used: Count | None
    size: Count | None


class Counters(Event, frozen=True, kw_only=True, tag="counters"):
    """Limits that were hit; None is not known."""

    available: bool
    oom_kill: Count | None
    pids_max: Count | None
    memory_peak_bytes: Count | None
    tmpfs: Annotated[dict[str, Space], Meta(max_length=MAX_NAMED)]

    @property
    def tmpfs_full(self) -> bool:
        return any(_is_full(space) for space in self.tmpfs.values())


class Failure(Event, frozen=True, kw_only=True, tag="failure"):
    where: str
    code: str
    detail: str


class EngineState(Event, frozen=True, kw_only=True, tag="state"):
    status: str
    exit_code: int | None
    oom_killed: bool


class AgentVersion(Event, frozen=True, kw_only=True, tag="agent_version"):
    version: str | None
    exit_code: int | None


class KilledOthers(Event, frozen=True, kw_only=True, tag="killed_others"):
    """Every process but the first was killed; `remaining` are those that were left."""

    remaining: int


class Removed(Event, frozen=True, kw_only=True, tag="removed"):
    outcome: Literal["removed", "absent", "unknown", "foreign"]


class Closed(Event, frozen=True, kw_only=True, tag="closed"):
    pass


type AnyEvent = (
    Launched
    | Opened
    | Exec
    | Transfer
    | Counters
    | Failure
    | EngineState
    | AgentVersion
    | KilledOthers
    | Removed
    | Closed
)
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyEvent)


@dataclass(frozen=True, slots=True)
class Observed:
    """All that was seen, in order. `problems` are gaps, repetitions and lines that cannot be read."""

    sequence: tuple[AnyEvent, ...] = ()
    problems: tuple[str, ...] = ()
    cut_line: bool = False

    @property
    def opened(self) -> tuple[Opened, ...]:
        return self._all(Opened)

    @property
    def versions(self) -> tuple[AgentVersion, ...]:
        return self._all(AgentVersion)

    @property
    def execs(self) -> tuple[Exec, ...]:
        return self._all(Exec)

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        return self._all(Transfer)

    @property
    def counters(self) -> tuple[Counters, ...]:
        return self._all(Counters)

    @property
    def states(self) -> tuple[EngineState, ...]:
        return self._all(EngineState)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return self._all(Failure)

    @property
    def removed(self) -> tuple[Removed, ...]:
        return self._all(Removed)

    @property
    def closed(self) -> int:
        return len(self._all(Closed))

    @property
    def clock_went_back(self) -> bool:
        """Whether the monotonic clock of one line lies before that of the line before it."""
        return any(later.mono < earlier.mono for earlier, later in pairwise(self.sequence))

    def exec_of(self, role: str, purpose: str) -> Exec | None:
        """The last command of that role and purpose."""
        found = [item for item in self.execs if item.role == role and item.purpose == purpose]
        return found[-1] if found else None

    def _all[T](self, kind: type[T]) -> tuple[T, ...]:
        return tuple(event for event in self.sequence if isinstance(event, kind))


def parse(data: bytes) -> Observed:
    """The events of a whole file. A last line without newline is `cut_line`: the writer was killed."""
    problems: list[str] = []
    events: list[AnyEvent] = []
    start = number = transfers = 0
    while (end := data.find(b"\n", start)) >= 0 and len(problems) < MAX_PROBLEMS:
        if number == MAX_EVENTS:
            problems.append("too_many_events")
            break
        found = _event(data[start : min(end, start + MAX_LINE_BYTES + 1)])
        if isinstance(found, str):
            problems.append(f"line {number}: {found}")
        else:
            events.append(found)
            transfers += isinstance(found, Transfer)
            if transfers > MAX_TRANSFERS:
                problems.append("too_many_transfers")
                break
            problems += (f"line {number}: {problem}" for problem in _contradictions(found, number))
        start, number = end + 1, number + 1
    return Observed(tuple(events), tuple(problems), cut_line=end < 0 and start < len(data))


def _event(line: bytes) -> AnyEvent | str:
    """The line if it is exactly what the attendant writes, its canonical form included, which no doubled key, other
    number or other encoding has, and its time, which can be compared with every other; otherwise what is wrong."""
    if len(line) > MAX_LINE_BYTES:
        return "too long"
    try:
        event: AnyEvent = _DECODER.decode(line)
        written = json.dumps(msgspec.to_builtins(event), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return type(error).__name__
    if written.encode("ascii") != line:
        return "not as it is written"
    return event if is_recorded(event.at) else "time"


def _contradictions(event: AnyEvent, number: int) -> Iterator[str]:
    if event.seq != number:
        yield "sequence"
    if isinstance(event, Exec) and event.cancelled and event.ended:
        yield "a cancelled command that ended"
    if (
        isinstance(event, Exec)
        and event.ended
        and event.started_mono + event.duration_s > event.mono + DURATION_SLACK_S
    ):
        yield "a command that took longer than until its end"
    if isinstance(event, Transfer):
        yield from (upload_contradictions if event.direction == "upload" else download_contradictions)(event)


def upload_contradictions(transfer: Transfer) -> Iterator[str]:
    """A transfer into a container keeps and passes over nothing; the agent's own logs are never sent back to it."""
    not_needed = transfer.code == "transfer.not_needed" and transfer.purpose == "agent_logs" and not transfer.files
    codes = {"ok": transfer.code is None or not_needed, "failed": bool(transfer.code)}
    if not codes.get(transfer.outcome, False):
        yield "outcome"
    if transfer.kept is not None or transfer.refusals is not UNSET or transfer.counted is not UNSET:
        yield "an upload that keeps"
    yield from _listing_contradictions(transfer)


def download_contradictions(transfer: Transfer) -> Iterator[str]:
    """A transfer out of a container says of all that it did not take why, and is kept in its own place."""
    if transfer.refusals is UNSET:
        yield "refusals"
    elif bool(transfer.refusals) != bool(transfer.refused):
        yield "refused"
    good = {
        "ok": transfer.code is None and not transfer.refused,
        "partial": bool(transfer.code) and bool(transfer.refused) and transfer.files > 0,
        "source_absent": transfer.code is None and not transfer.files,
        "refused": bool(transfer.code),
        "failed": bool(transfer.code),
    }
    if not good[transfer.outcome]:
        yield "outcome"
    places = {"agent_logs": "kept/agent", "verifier_logs": "kept/verifier"}
    place = places.get(transfer.purpose, f"kept/artifacts/{transfer.path.strip('/')}")
    if transfer.kept != place and (transfer.kept is not None or transfer.files):
        yield "kept elsewhere"
    if transfer.kept is not None and transfer.size > TRANSFER_BYTES:
        yield "more than a transfer takes"
    yield from _listing_contradictions(transfer)


def _listing_contradictions(transfer: Transfer) -> Iterator[str]:
    """Count, size and hash are those of the files; of more than 200 of them only the first are listed."""
    entries = transfer.entries
    if len(entries) != min(transfer.files, MAX_ENTRIES):
        yield "files"
    size = sum(entry.size for entry in entries)
    if transfer.size < size or (transfer.files <= MAX_ENTRIES and transfer.size != size):
        yield "size"
    if len({entry.path for entry in entries}) != len(entries):
        yield "a file twice"
    # A name from which a secret was removed is not the one that was hashed.
    scrubbed = any(REDACTED in entry.path for entry in entries)
    if transfer.files <= MAX_ENTRIES and not scrubbed:
        listed = combined_sha256([Entry(entry.path, entry.size, entry.sha256) for entry in entries])
        if transfer.sha256 != listed:
            yield "sha256"


def _is_full(space: Space) -> bool:
    """Full means that less than one page or a hundredth is left: ENOSPC itself leaves no counter."""
    if space.size is None or space.used is None:
        return False
    return space.size > 0 and space.size - space.used <= max(4096, space.size // 100)
