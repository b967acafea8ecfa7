"""Reading the gateway's ledger: verifies its chain and counts its requests per trial.

Pure. The format is the gateway's (gateway.md): canonical JSON lines, each with the SHA-256 of the line
before, ended by a closing line. A gap, a broken chain or a missing end is an integrity error (design 5).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

MAX_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024  # the gateway writes less than 1 KiB
FIRST_PREVIOUS = "0" * 64

Kind = Literal["ok", "refused", "upstream_error", "malformed", "wrong_model"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

_SENTENCES = {
    "ledger.missing": "The gateway's ledger was not kept, so nothing proves what the endpoint answered.",
    "ledger.too_large": "The gateway's ledger is larger than a ledger can be.",
    "ledger.torn_line": "The gateway's ledger ends in the middle of a line.",
    "ledger.malformed_line": "A line of the gateway's ledger is not as the gateway writes it.",
    "ledger.sequence_gap": "A line of the gateway's ledger is missing or out of order.",
    "ledger.broken_chain": "A line of the gateway's ledger was changed after it was written.",
    "ledger.wrong_count": "The gateway's ledger does not hold as many lines as its closing line says.",
    "ledger.after_closed": "The gateway's ledger goes on after its closing line.",
    "ledger.not_closed": "The gateway's ledger has no closing line, so its end may be missing.",
}


@dataclass(frozen=True, slots=True)
class LedgerFault:
    """What is wrong, once: stable `code`, a person's `sentence`, private `detail`, 1-based `line` if any."""

    code: str
    line: int | None = None
    detail: str = ""

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.code]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every line has: its number, the SHA-256 of the line before, when it was written."""

    seq: Count
    prev: str
    at: str


class LedgerRequest(_Line, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One request's line. Sizes in bytes; `status` is the endpoint's, for a refusal the gateway's own."""

    kind: Kind
    trial: Count | None
    code: str | None
    status: Count | None
    prompt_tokens: Count | None
    completion_tokens: Count | None
    bytes_in: Count
    bytes_out: Count
    duration_ms: Count
    request_sha256: str | None
    response_sha256: str | None
    message_sha256: str | None
    session_matches: bool | None

    @property
    def reached_endpoint(self) -> bool:
        return self.request_sha256 is not None

    @property
    def is_completion(self) -> bool:
        """A well-formed 2xx completion that names the declared model: the proof of execution (design 5)."""
        return self.kind == "ok"


class _Summary(_Line, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many requests of one trial and code were only counted."""

    kind: Literal["summary"]
    trial: Count | None
    code: str
    count: Count


class _Closed(_Line, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The last line: how many stand before it."""

    kind: Literal["closed"]
    count: Count


class _Kind(msgspec.Struct):
    kind: str


_KIND = msgspec.json.Decoder(_Kind)
_OTHERS: dict[str, type[_Summary | _Closed]] = {"summary": _Summary, "closed": _Closed}


@dataclass(frozen=True, slots=True)
class TrialLedger:
    """What one trial's token asked: its lines in order, and by code how many requests the gateway answered
    itself, those included that were only counted in a summary line.
    """

    requests: tuple[LedgerRequest, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def forwarded(self) -> tuple[LedgerRequest, ...]:
        """The requests that reached the endpoint; every one of them has its line."""
        return tuple(request for request in self.requests if request.reached_endpoint)

    @property
    def completions(self) -> tuple[LedgerRequest, ...]:
        return tuple(request for request in self.requests if request.is_completion)


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """The ledger as far as it holds. `trials` has every trial that asked; `unattributed` counts by code."""

    fault: LedgerFault | None
    lines: int
    trials: Mapping[int, TrialLedger]
    unattributed: Mapping[str, int]

    @property
    def intact(self) -> bool:
        return self.fault is None

    def trial(self, number: int) -> TrialLedger:
        """The trial's part, empty when it never asked."""
        return self.trials.get(number, TrialLedger())


def message_digest(content: str | None, tool_calls: Iterable[tuple[str | None, str, str]]) -> str:
    """The digest of what an assistant said, as the gateway makes it; calls are (id, name, arguments)."""
    form = {"content": content or "", "tool_calls": [list(call) for call in tool_calls]}
    return hashlib.sha256(_canonical(form)).hexdigest()


def read_ledger(data: bytes | None) -> LedgerReport:
    """Verify and count `ledger.jsonl` (None when there is none). Never raises; reading ends at a fault."""
    reading = _Reading()
    fault = _shape_fault(data) or reading.read(data or b"")
    return LedgerReport(fault, reading.count, reading.trials(), dict(reading.refused.get(None, Counter())))


def _shape_fault(data: bytes | None) -> LedgerFault | None:
    if not data:
        return LedgerFault("ledger.missing")
    if len(data) > MAX_BYTES:
        return LedgerFault("ledger.too_large", detail=f"{len(data)} bytes")
    return None


class _Reading:
    """The lines so far."""

    def __init__(self) -> None:
        self.count = 0
        self.requests: list[LedgerRequest] = []
        self.refused: dict[int | None, Counter[str]] = {}
        self._previous = FIRST_PREVIOUS
        self._closed = False

    def read(self, data: bytes) -> LedgerFault | None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if fault := self._line(data[start:end]):
                return fault
            start = end + 1
        if start < len(data):
            return LedgerFault("ledger.torn_line", self.count + 1)
        return None if self._closed else LedgerFault("ledger.not_closed", self.count)

    def trials(self) -> dict[int, TrialLedger]:
        numbers = {r.trial for r in self.requests} | set(self.refused)
        return {number: self._trial(number) for number in sorted(n for n in numbers if n is not None)}

    def _trial(self, number: int) -> TrialLedger:
        own = tuple(request for request in self.requests if request.trial == number)
        return TrialLedger(own, dict(self.refused.get(number, Counter())))

    def _line(self, line: bytes) -> LedgerFault | None:
        place = self.count + 1
        if self._closed:
            return LedgerFault("ledger.after_closed", place)
        record = _record(line)
        if record is None:
            return LedgerFault("ledger.malformed_line", place)
        if record.seq != self.count:
            return LedgerFault("ledger.sequence_gap", place, f"seq {record.seq}")
        if record.prev != self._previous:
            return LedgerFault("ledger.broken_chain", place)
        match record:
            case _Closed(count=said) if said != self.count:
                return LedgerFault("ledger.wrong_count", place, f"{said} said")
            case _Closed():
                self._closed = True
            case _Summary(trial=trial, code=code, count=count):
                self._refuse(trial, code, count)
            case LedgerRequest():
                self.requests.append(record)
                if record.kind == "refused":
                    self._refuse(record.trial, record.code or record.kind, 1)
        self._previous = hashlib.sha256(line).hexdigest()
        self.count += 1
        return None

    def _refuse(self, trial: int | None, code: str, count: int) -> None:
        self.refused.setdefault(trial, Counter())[code] += count


def _record(line: bytes) -> LedgerRequest | _Summary | _Closed | None:
    """The line if it is exactly what the gateway writes: its fields, their types, and the canonical form byte for byte,
    which no doubled key, other number or other encoding has."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        shape: type[LedgerRequest | _Summary | _Closed] = _OTHERS.get(_KIND.decode(line).kind, LedgerRequest)
        record = msgspec.json.decode(line, type=shape)
        return record if _canonical(msgspec.structs.asdict(record)) == line else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
