"""What was said, whole: each exchange with the endpoint, kept in memory until the one reader outside holds it.

A request is kept as its difference to the one before of its trial, in units that are cut at its members and messages:
so many units of the start and of the end are the same, and those between are new. Only digests of units are remembered.
The reader (`relay`) says from which number on it wants records, gets them in order, and says what it holds; what it
does not hold is sent again to whoever comes next. What does not fit keeps its place and its digests and loses its text.
"""

import asyncio
import hashlib
import json
import os
import re
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .relay import address_of

# Of texts, together; a quarter of the container's memory, like as much for the requests that are being answered.
MAX_HELD_BYTES = 48 * 1024 * 1024
# Of records whose text did not fit; beyond them nothing is kept, and the ledger alone says that something was.
MAX_BARE = 4_096
MAX_UNITS = 4_096
_CHUNK = 64 * 1024
_FROM_LEDGER = (
    "seq", "at", "trial", "kind", "code", "status", "prompt_tokens", "completion_tokens", "duration_ms",
    "request_sha256", "response_sha256", "message_sha256",
)  # fmt: skip
_TOKEN = re.compile(rb'"[^"]*+"?|[\[\]{},]')


def units_of(body: bytes) -> list[bytes]:
    """The body in pieces: before each comma of its first two levels, and before what closes the second.

    Joined they are the body, whatever it holds. At most MAX_UNITS.
    """
    cuts = [0]
    depth = 0
    # Something else of the same length in place of each escape: then a string ends at the next quote.
    for token in _TOKEN.finditer(body.replace(b"\\\\", b"__").replace(b'\\"', b"__")):
        place = token.start()
        match body[place]:
            case 0x5B | 0x7B:  # [ {
                depth += 1
                continue
            case 0x5D | 0x7D:  # ] }
                depth -= 1
                if depth != 1:
                    continue
            case 0x2C if depth in (1, 2):  # ,
                pass
            case _:
                continue
        if place > cuts[-1]:
            cuts.append(place)
            if len(cuts) == MAX_UNITS:
                break
    return [body[start:end] for start, end in zip(cuts, [*cuts[1:], len(body)], strict=True)]


@dataclass(frozen=True)
class Difference:
    """`head` units of the request before, then `new`, then its last `tail` units."""

    head: int
    new: Sequence[bytes]
    tail: int


class Differences:
    """What the last request of one trial was made of."""

    def __init__(self) -> None:
        self._units: list[bytes] = []

    def next(self, body: bytes) -> Difference:
        """The difference of this body to the one before, which it replaces."""
        units = units_of(body)
        digests = [hashlib.sha256(unit).digest() for unit in units]
        head = _same(self._units, digests)
        tail = _same(self._units[head:][::-1], digests[head:][::-1])
        self._units = digests
        return Difference(head, units[head : len(units) - tail], tail)


def _same(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    count = 0
    for a, b in zip(one, other):  # noqa: B905 - the shorter one ends it
        if a != b:
            break
        count += 1
    return count


@dataclass(frozen=True)
class _Record:
    """One exchange as it is sent: a line of JSON, then its texts, whose sizes the line has."""

    number: int
    line: bytes
    texts: Sequence[bytes]

    @property
    def size(self) -> int:
        return len(self.line) + sum(map(len, self.texts))


class Transcript:
    """Keeps what `keep` is given until a reader said that it holds it, and serves the one reader that came last."""

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self._records: deque[_Record] = deque()
        self._held = 0
        self._bare = 0
        self._next = 0
        self._trials: dict[int, Differences] = {}
        self._changed = asyncio.Event()
        self._had_reader = False
        self._reader: asyncio.Task[None] | None = None
        self._closing = False

    def keep(self, line: dict[str, Any] | None, request: bytes, answer: bytes | None) -> None:
        """One exchange: its line of the ledger (None when that is closed), the bytes sent, the body that came.

        An answer that the gateway withheld for the credential in it is not kept here either.
        """
        if line is None or line["trial"] is None:
            return
        number, self._next = self._next, self._next + 1
        withheld = line["code"] == "credential_echoed"
        body = None if withheld else answer
        difference = self._trials.setdefault(line["trial"], Differences()).next(request)
        fits = self._held + sum(map(len, difference.new)) + len(body or b"") <= self._most
        if not fits:
            # The next request has to stand for itself: nobody has the one that it would be compared with.
            del self._trials[line["trial"]]
            self._bare += 1
            if self._bare > MAX_BARE:
                return
        record = {
            "number": number,
            "ledger": {name: line[name] for name in _FROM_LEDGER},
            "lost": not fits,
            "withheld": withheld,
            "head": difference.head if fits else 0,
            "tail": difference.tail if fits else 0,
            "new": [len(unit) for unit in difference.new] if fits else [],
            "answer": None if body is None or not fits else len(body),
        }
        texts = [*difference.new, body or b""] if fits else []
        self._append(_Record(number, json.dumps(record).encode("ascii") + b"\n", texts))

    def _append(self, record: _Record) -> None:
        self._records.append(record)
        self._held += record.size
        self._changed.set()

    async def listen(self) -> asyncio.Server:
        """Open the socket of the reader: in this container's own network namespace, for this user alone."""
        return await asyncio.start_unix_server(self._connected, address_of(os.getpid()))

    async def finish(self, seconds: float) -> None:
        """Wait until the reader holds everything, so long at most, and not at all when there never was one."""
        self._closing = True
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                while self._had_reader and self._records:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if _peer_uid(writer.get_extra_info("socket")) != os.getuid():
            writer.transport.abort()
            return
        if self._reader is not None:
            self._reader.cancel()
        task = self._reader = asyncio.current_task()
        self._had_reader = True
        sending: asyncio.Task[None] | None = None
        try:
            self._let_go(await _number(reader))
            sending = asyncio.create_task(self._send(writer))
            while True:
                self._let_go(await _number(reader))
        except (ValueError, OSError, asyncio.CancelledError):
            pass  # it is gone, or it says what no reader of ours says, or another one came
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            if self._reader is task:
                self._reader = None
            writer.transport.abort()

    def _let_go(self, number: int) -> None:
        """Everything before this number is held outside."""
        while self._records and self._records[0].number < number:
            gone = self._records.popleft()
            self._held -= gone.size
            self._bare -= not gone.texts
        self._changed.set()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        """Every record once, in order; a line that nothing more is there each time when that is so."""
        sent = -1
        while True:
            record = next((record for record in self._records if record.number > sent), None)
            if record is None:
                writer.write(json.dumps({"number": self._next, "caught_up": True}).encode("ascii") + b"\n")
                await writer.drain()
                await self._more(sent)
                continue
            sent = record.number
            for text in (record.line, *record.texts):
                for start in range(0, len(text), _CHUNK):
                    writer.write(text[start : start + _CHUNK])
                    await writer.drain()

    async def _more(self, sent: int) -> None:
        while not self._records or self._records[-1].number <= sent:
            self._changed.clear()
            await self._changed.wait()


async def _number(reader: asyncio.StreamReader) -> int:
    """The next line of the reader: a number of at most 18 digits. Raises ValueError, also at the end."""
    line = await reader.readline()
    if not line.endswith(b"\n") or len(line) > 19 or not line[:-1].isdigit():
        raise ValueError("no number")
    return int(line)


def _peer_uid(link: socket.socket) -> int:
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
