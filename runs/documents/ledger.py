"""Reading the gateway's ledger: verifies its chain and counts its requests per trial.

Pure. The format is the gateway's (its `ledger.py`): canonical JSON lines, each with the SHA-256 of the line before,
ended by a closing line. Since version 2 the first line names run, spec and gateway, and the closing line holds its own
hash; whether a ledger may lack the first line is not for the ledger to say (`evidence.trial.binding`). Since version 3
a request's line says more of what the endpoint said, since version 4 of what it used. A gap, a broken chain or a
missing end is an integrity error (design 5).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

# Far more than the requests of a run and the refusals that get a line of their own.
MAX_BYTES = 16 * 1024 * 1024
MAX_LINES = 16_384
MAX_LINE_BYTES = 4096  # the gateway writes less than 1 KiB
FIRST_PREVIOUS = "0" * 64

Kind = Literal["ok", "answer", "refused", "upstream_error", "malformed", "wrong_model"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Nonce = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,64}\Z")]
# UTC with microseconds; texts of this form sort as their times do.
Time = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z")]

_ERRORS = range(400, 600)
_FLAGS = (("cut",), ("refused",), ("cut", "refused"))
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_SENTENCES = {
    "ledger.missing": "The gateway's ledger was not kept, so nothing proves what the endpoint answered.",
    "ledger.too_large": "The gateway's ledger is larger than a ledger can be.",
    "ledger.torn_line": "The gateway's ledger ends in the middle of a line.",
    "ledger.malformed_line": "A line of the gateway's ledger is not as the gateway writes it.",
    "ledger.sequence_gap": "A line of the gateway's ledger is missing or out of order.",
    "ledger.broken_chain": "A line of the gateway's ledger was changed after it was written.",
    "ledger.times_reversed": "A line of the gateway's ledger is older than the line before it.",
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


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a request; `cached` are some of `prompt`. `estimated` says that some were not reported, and
    `reported_cost` is the endpoint's own word in pico-dollars."""

    prompt: int
    cached: int
    completion: int
    estimated: bool
    reported_cost: int | None

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every line has: its number, the SHA-256 of the line before, when it was written."""

    seq: Count
    prev: Digest
    at: Time

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.at)  # ValueError for a day or an hour that there is not


class LedgerOpening(_Line, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first line since version 2: whose ledger this is. `nonce` is that of the gateway in its owner's journal;
    `spec_sha256` is None when it belonged to no run."""

    kind: Literal["opened"]
    version: Literal[2, 3, 4]
    run_id: Name
    spec_sha256: Digest | None
    nonce: Nonce


class LedgerRequest(_Line, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One request's line. Sizes in bytes; `status` is the endpoint's, for a refusal the gateway's own.

    Since version 3: `api`, None in environment runs, which have but one; `flags` of a completion, cut (at the token
    limit) and refused (by the model); `said_status`, the status that an error inside a 2xx stands for; `retry_after_s`
    of a 429 or 503. A malformed answer's `code` says in which way it is no completion. An `answer` of a pass-through
    API is well-formed, but nobody's words: vectors, a count of tokens.

    Since version 4: `cached_tokens`, which are some of the prompt's; the `estimated_` tokens of a request that may be
    charged and of which the endpoint reported none; `reported_cost` in pico-dollars; `waited_ms` for its turn.
    """

    kind: Kind
    trial: Count | None
    code: str | None
    status: Count | None
    prompt_tokens: Count | None
    completion_tokens: Count | None
    bytes_in: Count
    bytes_out: Count
    duration_ms: Count
    request_sha256: Digest | None
    response_sha256: Digest | None
    message_sha256: Digest | None
    session_matches: bool | None
    api: Name | msgspec.UnsetType | None = msgspec.UNSET
    flags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    said_status: Count | msgspec.UnsetType | None = msgspec.UNSET
    retry_after_s: Count | msgspec.UnsetType | None = msgspec.UNSET
    cached_tokens: Count | msgspec.UnsetType | None = msgspec.UNSET
    estimated_prompt_tokens: Count | msgspec.UnsetType | None = msgspec.UNSET
    estimated_completion_tokens: Count | msgspec.UnsetType | None = msgspec.UNSET
    reported_cost: Count | msgspec.UnsetType | None = msgspec.UNSET
    waited_ms: Count | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trial is None and self.kind != "refused":
            raise ValueError("only a refusal is nobody's")
        if self.kind in ("ok", "wrong_model") and not self._is_whole_answer:
            raise ValueError("a completion without a 2xx status or one of its hashes")
        if self.kind == "ok" and self.code is not None:
            raise ValueError("a completion with a code, which says what is wrong")
        if self.kind == "answer" and not self.passed_through:
            raise ValueError("an answer that is nobody's words, outside of the APIs that have such")
        if not self._says_more_rightly:
            raise ValueError("what no gateway says of such an answer")

    @property
    def _says_more_rightly(self) -> bool:
        absent = (None, msgspec.UNSET)
        if self.flags and (self.flags not in _FLAGS or self.kind not in ("ok", "wrong_model")):
            return False
        if self.said_status not in absent and (self.kind != "upstream_error" or self.said_status not in _ERRORS):
            return False
        both = self.prompt_tokens is not None and self.estimated_prompt_tokens not in absent
        both |= self.completion_tokens is not None and self.estimated_completion_tokens not in absent
        return not both and (self.retry_after_s in absent or self.status in (429, 503))

    @property
    def version(self) -> int | None:
        """The version whose lines have exactly its fields, 2 for that and the one before; None when none has."""
        said = (self.api, self.flags, self.said_status, self.retry_after_s)
        used = (
            self.cached_tokens,
            self.estimated_prompt_tokens,
            self.estimated_completion_tokens,
            self.reported_cost,
            self.waited_ms,
        )
        says, counts = ({value is not msgspec.UNSET for value in more} for more in (said, used))
        if len(says) > 1 or len(counts) > 1:
            return None
        return {(False, False): 2, (True, False): 3, (True, True): 4}.get((says.pop(), counts.pop()))

    @property
    def usage(self) -> "Usage":
        """What it used: as the endpoint reported it, or as it was estimated."""
        prompt, said = (
            estimated or 0 if reported is None else reported
            for reported, estimated in (
                (self.prompt_tokens, _given(self.estimated_prompt_tokens)),
                (self.completion_tokens, _given(self.estimated_completion_tokens)),
            )
        )
        cached = min(_given(self.cached_tokens) or 0, prompt)
        guessed = (_given(self.estimated_prompt_tokens), _given(self.estimated_completion_tokens)) != (None, None)
        return Usage(prompt, cached, said, estimated=guessed, reported_cost=_given(self.reported_cost))

    @property
    def passed_through(self) -> bool:
        """Whether it is of a pass-through API, which no environment run has."""
        return self.api not in (None, msgspec.UNSET)

    @property
    def was_cut(self) -> bool:
        return self.flags is not msgspec.UNSET and "cut" in self.flags

    @property
    def model_refused(self) -> bool:
        return self.flags is not msgspec.UNSET and "refused" in self.flags

    @property
    def _is_whole_answer(self) -> bool:
        hashes = [self.request_sha256, self.response_sha256]
        if (self.kind, self.api) != ("wrong_model", "embeddings"):  # vectors are nobody's words
            hashes.append(self.message_sha256)
        return self.status is not None and 200 <= self.status < 300 and None not in hashes

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
    """The last line: how many stand before it; since version 2 also the hash of the line without that hash."""

    kind: Literal["closed"]
    count: Count
    sha256: Digest | msgspec.UnsetType = msgspec.UNSET

    @property
    def holds(self) -> bool:
        fields = {name: value for name, value in msgspec.structs.asdict(self).items() if name != "sha256"}
        return self.sha256 == hashlib.sha256(_canonical(fields)).hexdigest()


class _Kind(msgspec.Struct):
    kind: str


type _Record = LedgerOpening | LedgerRequest | _Summary | _Closed

_KIND = msgspec.json.Decoder(_Kind)
_OTHERS: dict[str, type[LedgerOpening | _Summary | _Closed]] = {
    "opened": LedgerOpening,
    "summary": _Summary,
    "closed": _Closed,
}


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
    """The ledger as far as it holds. `trials` has every trial that asked; `unattributed` counts by code; `opening` is
    the first line of a ledger that has one; `first_at` and `last_at` are its earliest and its latest time; `sha256` is
    that of the whole file, None when there is none; `passed_through` says that a line is of a pass-through API."""

    fault: LedgerFault | None
    lines: int
    trials: Mapping[int, TrialLedger]
    unattributed: Mapping[str, int]
    opening: LedgerOpening | None = None
    first_at: str | None = None
    last_at: str | None = None
    sha256: str | None = None
    passed_through: bool = False

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
    return LedgerReport(
        fault,
        reading.count,
        reading.trials(),
        dict(reading.refused.get(None, Counter())),
        reading.opening,
        reading.first_at,
        reading.last_at,
        hashlib.sha256(data).hexdigest() if data else None,
        reading.passed_through,
    )


def _shape_fault(data: bytes | None) -> LedgerFault | None:
    if not data:
        return LedgerFault("ledger.missing")
    if len(data) > MAX_BYTES:
        return LedgerFault("ledger.too_large", detail=f"{len(data)} bytes")
    if (lines := data.count(b"\n")) > MAX_LINES:
        return LedgerFault("ledger.too_large", detail=f"{lines} lines")
    return None


class _Reading:
    """The lines so far."""

    def __init__(self) -> None:
        self.count = 0
        self.opening: LedgerOpening | None = None
        self.first_at: str | None = None
        self.last_at: str | None = None
        self.requests: dict[int | None, list[LedgerRequest]] = {}
        self.refused: dict[int | None, Counter[str]] = {}
        self.passed_through = False
        self._previous = FIRST_PREVIOUS
        self._closed = False

    def read(self, data: bytes) -> LedgerFault | None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            # Of a line that is too long no more is copied than shows it.
            if fault := self._line(data[start : min(end, start + MAX_LINE_BYTES + 1)]):
                return fault
            start = end + 1
        if start < len(data):
            return LedgerFault("ledger.torn_line", self.count + 1)
        return None if self._closed else LedgerFault("ledger.not_closed", self.count)

    def trials(self) -> dict[int, TrialLedger]:
        numbers = sorted(number for number in {*self.requests, *self.refused} if number is not None)
        return {
            number: TrialLedger(tuple(self.requests.get(number, ())), dict(self.refused.get(number, Counter())))
            for number in numbers
        }

    def _line(self, line: bytes) -> LedgerFault | None:
        place = self.count + 1
        if self._closed:
            return LedgerFault("ledger.after_closed", place)
        record = _record(line)
        if record is None or not self._may_stand_here(record):
            return LedgerFault("ledger.malformed_line", place)
        if record.seq != self.count:
            return LedgerFault("ledger.sequence_gap", place, f"seq {record.seq}")
        if record.prev != self._previous:
            return LedgerFault("ledger.broken_chain", place)
        if self.last_at is not None and record.at < self.last_at:
            return LedgerFault("ledger.times_reversed", place)
        match record:
            case LedgerOpening():
                self.opening = record
            case _Closed(count=said) if said != self.count:
                return LedgerFault("ledger.wrong_count", place, f"{said} said")
            case _Closed():
                self._closed = True
            case _Summary(trial=trial, code=code, count=count):
                self._refuse(trial, code, count)
            case LedgerRequest() if record.version != self._version:
                return LedgerFault("ledger.malformed_line", place)
            case LedgerRequest():
                self.requests.setdefault(record.trial, []).append(record)
                self.passed_through |= record.passed_through
                if record.kind == "refused":
                    self._refuse(record.trial, record.code or record.kind, 1)
        self._previous = hashlib.sha256(line).hexdigest()
        self.count += 1
        self.first_at, self.last_at = self.first_at or record.at, record.at
        return None

    @property
    def _version(self) -> int:
        return 2 if self.opening is None else self.opening.version

    def _may_stand_here(self, record: _Record) -> bool:
        """Only the first line opens, and only the closing line of a ledger that was opened holds its own hash."""
        match record:
            case LedgerOpening():
                return self.count == 0
            case _Closed():
                return record.holds if self.opening is not None else record.sha256 is msgspec.UNSET
            case _:
                return True

    def _refuse(self, trial: int | None, code: str, count: int) -> None:
        self.refused.setdefault(trial, Counter())[code] += count


def _record(line: bytes) -> _Record | None:
    """The line if it is exactly what the gateway writes: its fields, their types, and the canonical form byte for byte,
    which no doubled key, other number or other encoding has."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        shape: type[_Record] = _OTHERS.get(_KIND.decode(line).kind, LedgerRequest)
        record: _Record = msgspec.json.decode(line, type=shape)
        fields = {name: value for name, value in msgspec.structs.asdict(record).items() if value is not msgspec.UNSET}
        return record if _canonical(fields) == line else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _given(value: int | msgspec.UnsetType | None) -> int | None:
    return None if isinstance(value, msgspec.UnsetType) else value


def _canonical(value: Any) -> bytes:
    return _ENCODER.encode(value).encode("ascii")
