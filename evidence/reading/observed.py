"""The environment provider's record of one trial, parsed.

Reads `observed.jsonl`: one canonical JSON object per line, numbered from 0. Our own side writes it outside every
container, so it is the proof that classification rests on; it is read as strictly as what others write.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchsite.lib.strict_json import JsonProblem, load_object

MAX_BYTES = 8 * 1024 * 1024
MAX_EVENTS = 20_000
AGENT = "agent"
VERIFIER = "verifier"


@dataclass(frozen=True, slots=True)
class Opened:
    """A container as the engine showed it: `limits` are those in force, `network` is None when it has none."""

    role: str
    trial: int | None
    trial_uuid: str | None
    session_id: str | None
    image_id: str | None
    at: str | None
    container_id: str | None = None
    limits: dict[str, Any] | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Exec:
    """One command; `mono` is its end and `started_mono` its start, seconds of the host's monotonic clock."""

    role: str
    purpose: str
    exit_code: int | None
    timed_out: bool
    duration_s: float
    mono: float
    started_mono: float | None
    at: str | None

    @property
    def ended(self) -> bool:
        return self.exit_code is not None


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """`modified` is the time that the file had in its container, seconds since 1970; a download alone records it."""

    path: str
    size: int
    sha256: str
    modified: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer; `entries` lists at most 200 of its `files`, `kept` is relative to the trial's folder.

    `refused` counts, by code, what stood among the files and was not taken.
    """

    role: str
    direction: str
    purpose: str
    path: str
    outcome: str
    code: str | None
    files: int
    size: int
    sha256: str | None
    kept: str | None
    entries: tuple[CopiedFile, ...]
    mono: float
    at: str | None
    refused: dict[str, int]


@dataclass(frozen=True, slots=True)
class Counters:
    role: str
    oom_kill: int
    pids_max: int
    tmpfs_full: bool
    available: bool


@dataclass(frozen=True, slots=True)
class Failure:
    role: str
    where: str
    code: str
    at: str | None


@dataclass(frozen=True, slots=True)
class EngineState:
    role: str
    exit_code: int | None
    oom_killed: bool


@dataclass(frozen=True, slots=True)
class AgentVersion:
    version: str | None
    mono: float


@dataclass(frozen=True, slots=True)
class Observed:
    """All that was seen, in order. `problems` are gaps, repetitions and lines that cannot be read."""

    opened: tuple[Opened, ...] = ()
    versions: tuple[AgentVersion, ...] = ()
    execs: tuple[Exec, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    counters: tuple[Counters, ...] = ()
    states: tuple[EngineState, ...] = ()
    failures: tuple[Failure, ...] = ()
    closed: int = 0
    events: int = 0
    problems: tuple[str, ...] = ()
    cut_line: bool = False
    clock_went_back: bool = False

    def exec_of(self, role: str, purpose: str) -> Exec | None:
        """The last command of that role and purpose."""
        found = [item for item in self.execs if item.role == role and item.purpose == purpose]
        return found[-1] if found else None


def parse(data: bytes) -> Observed:
    """The events of a whole file. A last line without newline is `cut_line`: the writer was killed."""
    lines = data.split(b"\n")
    tail = lines.pop()
    problems: list[str] = []
    events = []
    for number, line in enumerate(lines[:MAX_EVENTS]):
        event = _event(line, number, problems)
        if event is not None:
            events.append(event)
    if len(lines) > MAX_EVENTS:
        problems.append("too_many_events")
    return _collect(events, problems, cut_line=bool(tail))


def _event(line: bytes, number: int, problems: list[str]) -> dict[str, Any] | None:
    try:
        event = load_object(line)
    except JsonProblem as problem:
        problems.append(f"line {number}: {problem.code}")
        return None
    if event.get("seq") != number:
        problems.append(f"line {number}: sequence")
    return event


def _collect(events: list[dict[str, Any]], problems: list[str], *, cut_line: bool) -> Observed:
    return Observed(
        opened=tuple(_build(events, "opened", _opened, problems)),
        versions=tuple(_build(events, "agent_version", _version, problems)),
        execs=tuple(_build(events, "exec", _exec, problems)),
        transfers=tuple(_build(events, "transfer", _transfer, problems)),
        counters=tuple(_build(events, "counters", _counters, problems)),
        states=tuple(_build(events, "state", _state, problems)),
        failures=tuple(_build(events, "failure", _failure, problems)),
        closed=sum(event.get("event") == "closed" for event in events),
        events=len(events),
        problems=tuple(problems),
        cut_line=cut_line,
        clock_went_back=_went_back(events),
    )


def _went_back(events: list[dict[str, Any]]) -> bool:
    """Whether the monotonic clock of one line lies before that of the line before it."""
    times = [event["mono"] for event in events if type(event.get("mono")) in (int, float)]
    return any(later < earlier for earlier, later in pairwise(times))


def _build[T](
    events: list[dict[str, Any]], name: str, make: Callable[[dict[str, Any]], T], problems: list[str]
) -> Iterable[T]:
    for event in events:
        if event.get("event") != name:
            continue
        try:
            yield make(event)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problems.append(f"{name}: {type(error).__name__}")


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def maybe[T](value: object, take: Callable[[object], T]) -> T | None:
    return None if value is None else take(value)


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def section(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _role(event: dict[str, Any]) -> str:
    role = text(event["role"])
    if role not in (AGENT, VERIFIER):
        raise ValueError
    return role


def _opened(event: dict[str, Any]) -> Opened:
    return Opened(
        _role(event),
        maybe(event.get("trial"), whole),
        maybe(event.get("trial_uuid"), text),
        maybe(event.get("session_id"), text),
        maybe(event.get("image_id"), text),
        maybe(event.get("at"), text),
        maybe(event.get("container_id"), text),
        maybe(event.get("limits"), section),
        maybe(event.get("network"), text),
    )


def _version(event: dict[str, Any]) -> AgentVersion:
    return AgentVersion(maybe(event.get("version"), text), number(event["mono"]))


def _exec(event: dict[str, Any]) -> Exec:
    return Exec(
        _role(event),
        text(event["purpose"]),
        maybe(event.get("exit_code"), whole),
        flag(event.get("timed_out", False)),
        number(event.get("duration_s", 0)),
        number(event["mono"]),
        maybe(event.get("started_mono"), number),
        maybe(event.get("at"), text),
    )


def _transfer(event: dict[str, Any]) -> Transfer:
    return Transfer(
        _role(event),
        text(event["direction"]),
        text(event["purpose"]),
        text(event["path"]),
        text(event["outcome"]),
        maybe(event.get("code"), text),
        whole(event.get("files", 0)),
        whole(event.get("size", 0)),
        maybe(event.get("sha256"), text),
        maybe(event.get("kept"), text),
        tuple(_copied(entry) for entry in event.get("entries") or []),
        number(event["mono"]),
        maybe(event.get("at"), text),
        {code: whole(count) for code, count in section(event.get("refused", {})).items()},
    )


def _copied(entry: dict[str, Any]) -> CopiedFile:
    modified = maybe(section(entry).get("modified"), whole)
    return CopiedFile(text(entry["path"]), whole(entry["size"]), text(entry["sha256"]), modified)


def _counters(event: dict[str, Any]) -> Counters:
    tmpfs = section(event.get("tmpfs") or {})
    return Counters(
        _role(event),
        maybe(event.get("oom_kill"), whole) or 0,
        maybe(event.get("pids_max"), whole) or 0,
        any(_is_full(use) for use in tmpfs.values()),
        flag(event.get("available", False)),
    )


def _is_full(use: dict[str, Any]) -> bool:
    """Full means that less than one page or a hundredth is left: ENOSPC itself leaves no counter."""
    size, used = whole(section(use)["size"]), whole(use["used"])
    return size > 0 and size - used <= max(4096, size // 100)


def _state(event: dict[str, Any]) -> EngineState:
    return EngineState(_role(event), maybe(event.get("exit_code"), whole), flag(event.get("oom_killed", False)))


def _failure(event: dict[str, Any]) -> Failure:
    return Failure(
        _role(event), text(event["where"]), text(event.get("code") or "unknown"), maybe(event.get("at"), text)
    )
