"""The index of a trajectory: the place of each step and a summary of all, built once, while ingesting.

An index file is a row of fixed records, then a summary as JSON, then the summary's length and a magic word. So a
window of a trajectory of 100,000 steps needs the last bytes, 50 records, and the bytes of 50 steps.
"""

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evidence.reading.proofs import at
from evidence.trajectory import atif, conversation, native
from evidence.trajectory.json_offsets import MAX_SMALL, Layout, ListScanner, Range, Source, read_range
from evidence.trajectory.ledger_match import LedgerMatcher
from evidence.trajectory.steps import LedgerMatch, Metrics, Step, parse_entry
from evidence.trajectory.text import safe, shown
from evidence.trajectory.transcript import AgentsAnswer

SCHEMA = "benchsite.trajectory-index/v1"
MAGIC = b"BSTRAJ1\n"
TAIL = struct.Struct("<Q8s")
RECORD = struct.Struct("<QQI4x")
MAX_STEP_BYTES = 8 * 1024 * 1024
# An agent writes the file, and what it writes must not keep its run from ending: so many entries are looked at in any
# file, and more only of one whose entries are as long as real ones.
MAX_ENTRIES = 20_000
USUAL_ENTRY_BYTES = 2_000
MAX_COST_USD = 1e9

FAILED, PROBLEM, COPIED, MATCHES, DIFFERS, TOO_LARGE, OTHER = (1 << bit for bit in range(7))

LISTS = (native.LIST_KEY, atif.LIST_KEY, conversation.LIST_KEY)


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


@dataclass(slots=True)
class Totals:
    """Sums over the steps that are no copied context; None is not reported."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    def add(self, metrics: Metrics) -> None:
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
            value = getattr(metrics, name)
            if value is not None:
                setattr(self, name, (getattr(self, name) or 0) + value)


@dataclass(slots=True)
class Summary:
    """What the index says about the whole file. `problems` counts each problem word; `steps` counts steps; `facts` are
    those of a conversation as the gateway saw it, empty for any other file."""

    format: str = "unknown"
    version: str | None = None
    supported: bool = True
    complete: bool = False
    size: int = 0
    steps: int = 0
    first_failed: int | None = None
    exit_status: str | None = None
    api_calls: int | None = None
    agent_version: str | None = None
    model: str | None = None
    totals: Totals = field(default_factory=Totals)
    problems: Counter[str] = field(default_factory=Counter)
    ledger_compared: int = 0
    ledger_matched: int = 0
    ledger_answers: int = 0
    facts: dict[str, int] = field(default_factory=dict)


def build_index(source: Source, sink: Sink, digests: Sequence[str] = ()) -> Summary:
    """Writes the index of a trajectory to `sink` and returns its summary; never raises for what the file holds.

    `digests` are the ledger's answers to this trial (`ledger_match.answer_digests`).
    """
    scanner = ListScanner(source, LISTS)
    summary = Summary()
    matcher = LedgerMatcher(digests)
    for place, step in _steps(scanner, source):
        summary.steps += 1
        flags = _account(summary, step, matcher) if step is not None else TOO_LARGE | PROBLEM
        if step is None:
            summary.problems["step_too_large"] += 1
        sink.write(RECORD.pack(place.start, place.end, flags))
    _finish(summary, scanner.layout, source)
    if summary.format == "gateway":
        summary.ledger_answers = summary.facts.get("exchanges", 0)
    else:
        found = matcher.summary
        summary.ledger_compared, summary.ledger_matched = found.compared, found.matched
        summary.ledger_answers = found.answers
    names = [name for name in Summary.__dataclass_fields__ if name != "totals"]
    totals = {name: getattr(summary.totals, name) for name in Totals.__dataclass_fields__}
    data = json.dumps(
        {"schema": SCHEMA, **{name: getattr(summary, name) for name in names} | {"totals": totals}}
    ).encode()
    sink.write(data + TAIL.pack(len(data), MAGIC))
    return summary


def agents_answers(source: Source) -> list[AgentsAnswer]:
    """The answers of the model that an agent's own file holds; never raises for what the file holds."""
    scanner = ListScanner(source, (native.LIST_KEY, atif.LIST_KEY))
    return [
        AgentsAnswer(number, step.digests)
        for number, (_, step) in enumerate(_steps(scanner, source), 1)
        if step is not None and step.is_answer and not step.copied
    ]


def _steps(scanner: ListScanner, source: Source) -> Iterator[tuple[Range, Step | None]]:
    """Each step's place with the step, or None when it is too large to be read."""
    grouped = _groups(scanner, source)
    for place, entries in grouped:
        yield place, step_of(entries, scanner.layout.list_key) if entries is not None else None


def _groups(scanner: ListScanner, source: Source) -> Iterator[tuple[Range, list[Any] | None]]:
    """The entries that make one step: one in ATIF, a message and its answers in the native format."""
    place: Range | None = None
    entries: list[Any] | None = None
    reader = _Rereader(source)
    for number, entry in enumerate(scanner.entries()):
        if number >= max(MAX_ENTRIES, entry.end // USUAL_ENTRY_BYTES):
            scanner.layout.too_many = True
            break
        value = reader.value(entry)
        is_native = scanner.layout.list_key not in (atif.LIST_KEY, conversation.LIST_KEY)
        if place is not None and is_native and entries and not native.opens_step(value, entries[0]):
            place = Range(place.start, entry.end)
            entries.append(value)
            if value is None or place.length > MAX_STEP_BYTES:
                entries = None
            continue
        if place is not None:
            yield place, entries
        place, entries = entry, None if value is None else [value]
    if place is not None:
        yield place, entries


class _Rereader:
    """Reads entries again while the scanner goes on: the source's position is put back."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def value(self, place: Range) -> Any:
        """The parsed entry, `{}` when it cannot be parsed, None when it is too large."""
        tell: Callable[[], int] = self._source.tell  # type: ignore[attr-defined]
        position = tell()
        data = read_range(self._source, place, MAX_STEP_BYTES)
        self._source.seek(position)
        return None if data is None else parsed(data)


def parsed(data: bytes) -> Any:
    try:
        return parse_entry(data)
    except ValueError:
        return {"unreadable": True}


def step_of(entries: list[Any], list_key: str | None) -> Step:
    if entries and isinstance(entries[0], dict) and entries[0].get("unreadable") is True:
        return _unreadable()
    try:
        if list_key == conversation.LIST_KEY:
            return conversation.gateway_step(entries[0])
        return atif.atif_step(entries[0]) if list_key == atif.LIST_KEY else native.native_step(entries)
    except (RecursionError, ValueError, TypeError, OverflowError):
        return _unreadable()  # nested too deeply to be shown, say: an agent may write what no reader thought of


def _unreadable() -> Step:
    return Step(source="unknown", message=shown(""), problems=("step_unreadable",))


def _account(summary: Summary, step: Step, matcher: LedgerMatcher) -> int:
    """Adds a step to the summary; returns its flags."""
    match = matcher.compare(step)
    if step.ledger is not LedgerMatch.NOT_COMPARED:  # the gateway's own transcript, which was held against it already
        match = step.ledger
        summary.ledger_compared += 1
        summary.ledger_matched += match is LedgerMatch.MATCHES
    summary.problems.update(step.problems)
    if step.failed and summary.first_failed is None:
        summary.first_failed = summary.steps
    if step.metrics is not None and not step.copied:
        summary.totals.add(step.metrics)
    if step.exit_status:
        summary.exit_status = safe(step.exit_status)[:100]
    return (
        FAILED * step.failed
        | PROBLEM * bool(step.problems)
        | COPIED * step.copied
        | MATCHES * (match is LedgerMatch.MATCHES)
        | DIFFERS * (match is LedgerMatch.DIFFERS)
        | OTHER * (step.agent_says in ("other", "missing") or "not_said" in step.notes)
    )


def _finish(summary: Summary, layout: Layout, source: Source) -> None:
    """What the members beside the steps say, read after the scan."""
    members = {name: _member(source, place) for name, place in layout.members.items() if name not in LISTS}
    summary.complete = layout.complete
    seek: Callable[[int, int], int] = source.seek  # type: ignore[assignment]
    summary.size = seek(0, 2)
    if layout.scalars:
        summary.problems["entry_not_an_object"] += layout.scalars
    if layout.too_many:
        summary.problems["too_many_entries"] += 1
    elif not layout.complete and summary.size:
        summary.problems["file_cut"] += 1
    if layout.list_key == conversation.LIST_KEY:
        summary.format = "gateway"
        facts = members.get("facts")
        known = facts.items() if isinstance(facts, dict) else ()
        summary.facts = {str(name): count for name, count in known if type(count) is int}
    elif layout.list_key == atif.LIST_KEY:
        summary.format = "atif"
        summary.version = _word(members.get("schema_version"))
        summary.supported = summary.version in atif.VERSIONS
        summary.agent_version = _word(at(members.get("agent"), "version"))
        summary.model = _word(at(members.get("agent"), "model_name"))
    elif layout.list_key is not None:
        info = members.get("info")
        summary.format = "native"
        summary.version = _word(members.get("trajectory_format"))
        summary.supported = summary.version is None or summary.version.startswith("mini-swe-agent-1")
        summary.exit_status = _word(at(info, "exit_status")) or summary.exit_status
        calls = at(info, "model_stats", "api_calls")
        summary.api_calls = calls if type(calls) is int else None
        summary.agent_version = _word(at(info, "mini_version"))
        summary.model = _word(at(info, "config", "model", "model_name"))
        cost = at(info, "model_stats", "instance_cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost <= MAX_COST_USD:
            summary.totals.cost_usd = float(cost)


def _member(source: Source, place: Range) -> Any:
    data = read_range(source, place, MAX_SMALL)
    return None if data is None else parsed(data)


def _word(value: Any) -> str | None:
    return safe(value)[:100] if isinstance(value, str) and value else None
