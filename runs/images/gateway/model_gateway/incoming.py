"""What the agent's side says: one request per connection, read with bounds on size and time, by h11."""

import asyncio
from dataclasses import dataclass

import h11

MAX_HEAD_BYTES = 16 * 1024
READ_SECONDS = 10.0
# No client cuts a body of 16 MiB into more; each costs the time of all.
MOST_PIECES = 65_536
_CHUNK = 64 * 1024
_DRAIN_BYTES = 8 * 1024 * 1024
_DRAIN_SECONDS = 1.0


class BadRequest(Exception):
    """The bytes are not one acceptable request; `code` is stable."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class ClientGone(Exception):
    """The other side hung up; `said_something` is False when not a byte had come."""

    def __init__(self, said_something: bool) -> None:
        super().__init__()
        self.said_something = said_something


@dataclass(frozen=True)
class Head:
    """Method and target as they were sent, undecoded; header names in lower case."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    def all(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    def one(self, name: bytes) -> bytes | None:
        """The header's value, None when it is absent. Raises BadRequest when it came twice."""
        values = self.all(name)
        if len(values) > 1:
            raise BadRequest("http.repeated_header")
        return values[0] if values else None


class Incoming:
    """One connection from the agent's side; head and body together have READ_SECONDS to arrive."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._deadline = asyncio.get_running_loop().time() + READ_SECONDS
        self._received = 0

    async def head(self) -> Head:
        """The request line and headers. Raises BadRequest, ClientGone."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            raise ClientGone(self._received > 0)
        # The parser bounds a head that is not complete yet; one that came in a single piece is measured here.
        if sum(len(name) + len(value) + 4 for name, value in event.headers) > MAX_HEAD_BYTES:
            raise BadRequest("http.head_size")
        return Head(event.method, event.target, tuple(event.headers))

    async def body(self, head: Head, max_bytes: int) -> bytes:
        """The whole body. Raises BadRequest (two framings, encoding, size, pipelining) and ClientGone."""
        self._check_framing(head, max_bytes)
        parts: list[bytes] = []
        size = 0
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                parts.append(bytes(event.data))
                size += len(event.data)
                if size > max_bytes:
                    raise BadRequest("body.size")
                if len(parts) > MOST_PIECES:
                    raise BadRequest("http.malformed")
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                raise ClientGone(True)
        if self._connection.trailing_data[0]:
            raise BadRequest("http.pipelined")
        return b"".join(parts)

    def wait_anew(self) -> None:
        """Give what is still to come READ_SECONDS from now: the gateway itself let it wait."""
        self._deadline = asyncio.get_running_loop().time() + READ_SECONDS

    async def until_gone(self) -> None:
        """Return when the other side hangs up, or sends more than a connection may."""
        await self._discard()

    async def drain(self) -> None:
        """Read what is still coming, for a moment, so that closing does not reset the answer away."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._discard()
        except (TimeoutError, OSError):
            return

    def _check_framing(self, head: Head, max_bytes: int) -> None:
        length = head.one(b"content-length")
        if length is not None and head.all(b"transfer-encoding"):
            raise BadRequest("http.two_framings")
        if length is not None and int(length) > max_bytes:
            raise BadRequest("body.size")
        if head.one(b"content-encoding") not in (None, b"identity"):
            raise BadRequest("http.content_encoding")
        kind = (head.one(b"content-type") or b"").split(b";")[0].strip().lower()
        if kind != b"application/json":
            raise BadRequest("http.content_type")

    async def _next(self) -> object:
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError:
                raise BadRequest("http.malformed") from None
            if event is not h11.NEED_DATA:
                return event
            self._connection.receive_data(await self._read())

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._deadline):
                data = await self._reader.read(_CHUNK)
        except TimeoutError:
            raise BadRequest("http.slow") from None
        except OSError:
            raise ClientGone(self._received > 0) from None
        self._received += len(data)
        return data

    async def _discard(self) -> None:
        left = _DRAIN_BYTES
        while left > 0:
            data = await self._reader.read(_CHUNK)
            if not data:
                return
            left -= len(data)
