"""What the endpoint says: from a permitted address, asked with own headers, no redirects, no proxies, all bounded."""

import _thread
import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import certifi
import h11

from .apis import CHAT, Api
from .completion import MAX_RESPONSE_BYTES
from .config import Endpoint

CONNECT_SECONDS = 10.0
_MAX_HEAD_BYTES = 64 * 1024
_CHUNK = 64 * 1024
# An answer in more pieces, or after more answers that are none yet, is one that is meant to cost time.
MOST_PIECES = 262_144
_MOST_INFORMATIONAL = 16


class UpstreamFailed(Exception):
    """No usable answer; `code` is unreachable, address_refused, timeout, tls, too_large, compressed, cut, not_http."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Answer:
    """The endpoint's answer: any status that is not 1xx, and the body as it came."""

    status: int
    body: bytes
    is_json: bool
    retry_after: bytes | None = None

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


Resolver = Callable[[str, int], Awaitable["list[str]"]]


async def resolve(host: str, port: int) -> "list[str]":
    """The addresses of a name, in the resolver's order; an address is its own. Raises OSError when it does not resolve.

    In a thread that nobody waits for: not at the end, which a resolver that does not answer would keep from coming, and
    not at its start, while which everybody else would wait as well.
    """
    with suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    loop = asyncio.get_running_loop()
    found: "asyncio.Future[list[str]]" = loop.create_future()

    def settle(error: "OSError | None", addresses: "list[str]") -> None:
        if found.done():
            return
        if error is None:
            found.set_result(addresses)
        else:
            found.set_exception(error)

    def ask() -> None:
        error: "OSError | None" = None
        addresses: "list[str]" = []
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [str(answer[4][0]) for answer in answers]
        except OSError as failure:
            error = failure
        except UnicodeError:
            error = OSError("no name that can be asked for")
        with suppress(RuntimeError):  # the gateway has ended meanwhile
            loop.call_soon_threadsafe(settle, error, addresses)

    try:
        _thread.start_new_thread(ask, ())
    except RuntimeError:
        raise OSError("no thread for the resolver") from None
    return await found


def verifying_context(ca_pem: "str | None" = None) -> ssl.SSLContext:
    """Certificates and names are verified, against these authorities, or certifi's list, and no others."""
    context = ssl.create_default_context(cafile=None if ca_pem else certifi.where(), cadata=ca_pem)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Upstream:
    """Asks the endpoint, with the credential; a connection per request."""

    def __init__(
        self,
        endpoint: Endpoint,
        credential: str | None,
        timeout_s: float,
        context: ssl.SSLContext | None = None,
        resolver: Resolver = resolve,
    ) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._context = context
        self._resolver = resolver
        self._credential = credential
        self._headers = [
            ("Host", endpoint.authority),
            ("User-Agent", "benchsite-gateway"),
            ("Content-Type", "application/json"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
            *endpoint.headers,
        ]

    async def complete(self, body: bytes) -> Answer:
        """POST a screened body to the endpoint's chat completions. Raises UpstreamFailed."""
        try:
            async with asyncio.timeout(self._timeout_s), self.asked(CHAT, "application/json", (), body) as heard:
                return Answer(heard.status, await heard.whole(), heard.is_json, heard.retry_after)
        except TimeoutError:
            raise UpstreamFailed("timeout") from None

    @asynccontextmanager
    async def asked(
        self, api: Api, accept: str, headers: Sequence[tuple[str, str]], body: bytes, query: str = ""
    ) -> AsyncIterator["Heard"]:
        """POST a screened body with the credential and these headers, but those of the record's own; unbounded in
        time. Raises UpstreamFailed."""
        declared = {name.lower() for name, _ in self._endpoint.headers}
        asked = [(name, value) for name, value in headers if name.lower() not in declared]
        sent = [*self._headers, ("Accept", accept), *asked, ("Content-Length", str(len(body)))]
        if self._credential is not None:
            sent.append((api.header, api.prefix + self._credential))
        request = h11.Request(method="POST", target=f"{self._endpoint.path}{api.path}{query}", headers=sent)
        reader, writer = await self._connect()
        try:
            yield await _heard(reader, writer, request, body)
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that was checked just now; the name is asked for each time, and not again after
        the check, so that nothing can change between the two."""
        endpoint = self._endpoint
        name = endpoint.host if self._context else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await self._resolver(endpoint.connect_host, endpoint.port)
                permitted = [address for address in found if endpoint.addresses.permits(address)]
                if found and not permitted:
                    raise UpstreamFailed("address_refused")
                for address in permitted:
                    try:
                        return await asyncio.open_connection(
                            address, endpoint.port, ssl=self._context, server_hostname=name, limit=_CHUNK
                        )
                    except ssl.SSLError:
                        raise UpstreamFailed("tls") from None
                    except OSError:
                        continue  # the name's next address
        except (TimeoutError, OSError):
            pass
        raise UpstreamFailed("unreachable")


class Heard:
    """An answer whose head is there; its body is read once, by `pieces` or `whole`."""

    def __init__(self, head: h11.Response, connection: h11.Connection, reader: asyncio.StreamReader) -> None:
        self.status = head.status_code
        self._headers = head.headers
        self._connection = connection
        self._reader = reader

    @property
    def is_json(self) -> bool:
        return self._kind().startswith(b"application/json")

    @property
    def is_event_stream(self) -> bool:
        return self._kind().startswith(b"text/event-stream")

    @property
    def retry_after(self) -> bytes | None:
        return self._first(b"retry-after")

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises UpstreamFailed: too_large, cut, unreachable."""
        size = count = 0
        try:
            while isinstance(event := await _next(self._connection, self._reader), h11.Data):
                size, count = size + len(event.data), count + 1
                if size > MAX_RESPONSE_BYTES or count > MOST_PIECES:
                    raise UpstreamFailed("too_large")
                yield bytes(event.data)
        except h11.RemoteProtocolError:
            raise UpstreamFailed("cut") from None
        except OSError:
            raise UpstreamFailed("unreachable") from None
        if not isinstance(event, h11.EndOfMessage):
            raise UpstreamFailed("cut")

    async def whole(self) -> bytes:
        """The whole body. Raises UpstreamFailed."""
        return b"".join([piece async for piece in self.pieces()])

    def _kind(self) -> bytes:
        return (self._first(b"content-type") or b"").lower()

    def _first(self, sought: bytes) -> bytes | None:
        return next((bytes(value) for name, value in self._headers if name == sought), None)


async def _heard(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: h11.Request, body: bytes
) -> Heard:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    try:
        # In one piece, so that the endpoint wakes once for it.
        writer.write(b"".join(connection.send(e) or b"" for e in (request, h11.Data(data=body), h11.EndOfMessage())))
        await writer.drain()
        return Heard(await _head(connection, reader), connection, reader)
    except h11.RemoteProtocolError:
        raise UpstreamFailed("not_http") from None
    except OSError:
        raise UpstreamFailed("unreachable") from None


async def _head(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Response:
    first = await reader.read(_CHUNK)
    if not first:
        raise UpstreamFailed("unreachable")
    connection.receive_data(first)
    event = await _next(connection, reader)
    for _ in range(_MOST_INFORMATIONAL):
        if not isinstance(event, h11.InformationalResponse):
            break
        event = await _next(connection, reader)
    if not isinstance(event, h11.Response):
        raise UpstreamFailed("not_http")
    if any(value != b"identity" for name, value in event.headers if name == b"content-encoding"):
        raise UpstreamFailed("compressed")
    return event


async def _next(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(_CHUNK))
    return event
