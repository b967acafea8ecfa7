"""Reading the gateway's transcript of a trial: each exchange, whole again, held against the ledger.

The file proves nothing that the ledger does not: a request that was put together from its differences, and an answer,
are what was said only when their SHA-256 are those of the ledger's line. What differs, what was cut and what is missing
is named and never hidden. The format is described in docs/evidence.md; whatever the file holds, nothing here raises.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from runs.documents.ledger import LedgerRequest, TrialLedger

VERSION = 1
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_LINES = 20_000
_BLOCK = 1024 * 1024
_CUT = b"\n[\xe2\x80\xa6]\n"


class File(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def seek(self, offset: int, /) -> object: ...


class Proof(StrEnum):
    """An exchange against the ledger; `broken` is no exchange at all, and the others say why it was not compared."""

    MATCHES = "matches"
    DIFFERS = "differs"
    BROKEN = "broken"
    CUT = "cut"
    WITHHELD = "withheld"
    LOST = "lost"
    REDACTED = "redacted"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange with the endpoint. `line` is the ledger's, None when it has none; `request` and `answer` are as far
    as they were kept, `request` None when it cannot be put together and `answer` None when there is none.

    `anew` are the pieces of the request that the one before did not have.
    """

    proof: Proof
    line: LedgerRequest | None
    request: bytes | None = None
    answer: bytes | None = None
    anew: tuple[bytes, ...] = ()
    whole: bool = False


class _Opening(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="opened"):
    version: int
    trial: int


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    head: int
    new: list[str | dict[str, Any]]
    tail: int


class _Ledger(msgspec.Struct):
    seq: int


class _Line(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="exchange"):
    number: int
    ledger: _Ledger
    lost: bool
    withheld: bool
    request: _Request
    answer: str | dict[str, Any] | None


_DECODER: msgspec.json.Decoder[_Opening | _Line] = msgspec.json.Decoder(_Opening | _Line)


@dataclass(frozen=True, slots=True)
class _Piece:
    data: bytes
    whole: bool


def read_exchanges(source: File, ledger: TrialLedger, *, trial: int, redacted: bool = False) -> Iterator[Exchange]:
    """Every request of the trial that reached the endpoint, in the ledger's order, with what the file has of it.

    `redacted` says that a known secret was taken out of the file: then a difference may be that.
    """
    reading = _Reading(ledger, redacted)
    for number, data in enumerate(_lines(source)):
        line = _parsed(data)
        if number == 0 and isinstance(line, _Opening) and line.version == VERSION and line.trial == trial:
            continue
        if number == 0 or number >= MAX_LINES or not isinstance(line, _Line):
            # Not as the worker writes it: nothing behind it can be told from what somebody added.
            yield Exchange(Proof.BROKEN, None)
            break
        yield from reading.before(line.ledger.seq)
        yield reading.exchange(line)
    yield from reading.rest()


class _Reading:
    def __init__(self, ledger: TrialLedger, redacted: bool) -> None:
        self._left = list(reversed(ledger.forwarded))
        self._redacted = redacted
        self._units: list[_Piece] | None = []

    def before(self, seq: int) -> Iterator[Exchange]:
        while self._left and self._left[-1].seq < seq:
            yield self._lost(self._left.pop())

    def rest(self) -> Iterator[Exchange]:
        while self._left:
            yield self._lost(self._left.pop())

    def _lost(self, line: LedgerRequest) -> Exchange:
        self._units = None
        return Exchange(Proof.LOST, line)

    def exchange(self, line: _Line) -> Exchange:
        entry = self._left.pop() if self._left and self._left[-1].seq == line.ledger.seq else None
        if line.lost:
            self._units = None
            return Exchange(Proof.LOST if entry is not None else Proof.DIFFERS, entry)
        new = [_piece(value) for value in line.request.new]
        self._units = _joined(self._units, line.request.head, new, line.request.tail)
        request = None if self._units is None else b"".join(unit.data for unit in self._units)
        answer = None if line.answer is None else _piece(line.answer)
        request_whole = self._units is not None and all(unit.whole for unit in self._units)
        proof = self._proof(entry, request, answer, request_whole, line.withheld)
        return Exchange(
            proof,
            entry,
            request,
            None if answer is None else answer.data,
            tuple(piece.data for piece in new),
            request_whole and (answer is None or answer.whole),
        )

    def _proof(
        self, entry: LedgerRequest | None, request: bytes | None, answer: _Piece | None, whole: bool, withheld: bool
    ) -> Proof:
        if entry is None:
            return Proof.DIFFERS
        differs = whole and request is not None and _sha256(request) != entry.request_sha256
        if answer is not None and answer.whole:
            differs = differs or _sha256(answer.data) != entry.response_sha256
        if answer is None and not withheld:
            differs = differs or entry.response_sha256 is not None
        if differs:
            return Proof.REDACTED if self._redacted else Proof.DIFFERS
        if withheld:
            return Proof.WITHHELD
        return Proof.MATCHES if whole and (answer is None or answer.whole) else Proof.CUT


def _joined(units: list[_Piece] | None, head: int, new: list[_Piece], tail: int) -> list[_Piece] | None:
    if (head, tail) == (0, 0):
        return new
    if units is None or head < 0 or tail < 0 or head + tail > len(units):
        return None
    return [*units[:head], *new, *units[len(units) - tail :]]


def _piece(value: str | dict[str, Any]) -> _Piece:
    if isinstance(value, str):
        return _Piece(value.encode("utf-8", "surrogatepass"), True)
    if isinstance(encoded := value.get("base64"), str) and len(value) == 1:
        try:
            return _Piece(base64.b64decode(encoded, validate=True), True)
        except (binascii.Error, ValueError):
            return _Piece(b"", False)
    head, tail = (
        _piece(part).data if isinstance(part := value.get(name), str | dict) and part is not value else b""
        for name in ("head", "tail")
    )
    return _Piece(head + _CUT + tail, False)


def _lines(source: File) -> Iterator[bytes]:
    """The lines without their ends; one that is too long, or torn, is given as it begins and is no line of ours."""
    source.seek(0)
    parts: list[bytes] = []
    size = 0
    while block := source.read(_BLOCK):
        pieces = block.split(b"\n")
        for piece in pieces[:-1]:
            yield b"".join([*parts, piece])
            parts, size = [], 0
        parts.append(pieces[-1])
        size += len(pieces[-1])
        if size > MAX_LINE_BYTES:
            break
    if size:
        yield b"".join(parts)


def _parsed(data: bytes) -> _Opening | _Line | None:
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError, ValueError):
        return None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class AgentsAnswer:
    """An answer of the model as the agent's own file has it: the number of its step, and what may be its digests."""

    step: int
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The agent's file beside the ledger's answers. `same` and `other` map a place in the ledger's answers to a step of
    the agent's file; a place in neither has no step. `made_up` are steps that no answer stands beside.
    """

    same: dict[int, int]
    other: dict[int, int]
    made_up: tuple[int, ...]


def compare_with_agent(answers: Sequence[AgentsAnswer], digests: Sequence[str]) -> Compared:
    """Ties steps to answers in order: equal ones first, then what stands between two equal ones by its place."""
    same: dict[int, int] = {}
    other: dict[int, int] = {}
    made_up: list[int] = []
    waiting: list[int] = []
    after = 0
    for answer in answers:
        found = next((place for place in range(after, len(digests)) if digests[place] in answer.digests), None)
        if found is None:
            waiting.append(answer.step)
            continue
        _tie(range(after, found), waiting, other, made_up)
        same[found], after, waiting = answer.step, found + 1, []
    _tie(range(after, len(digests)), waiting, other, made_up)
    return Compared(same, other, tuple(made_up))


def _tie(places: range, steps: list[int], other: dict[int, int], made_up: list[int]) -> None:
    other.update(zip(places, steps, strict=False))
    made_up += steps[len(places) :]
