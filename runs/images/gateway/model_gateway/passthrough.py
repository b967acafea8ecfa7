"""The answering of requests of pass-through APIs: as `server.py` does it, but the answer goes on as it comes.

A stream's line is written before its last event goes on, so that who has a whole answer has a line. A stream that was
cut ends without the mark of an end, here as at the endpoint.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import asked, echo
from .admission import NotAdmitted
from .apis import Api
from .completion import MAX_JUDGED_BYTES
from .config import Config, PassThrough
from .incoming import BadRequest, ClientGone, Head, Incoming
from .ledger import Ledger
from .policy import Refused
from .room import MAX_AT_ONCE, MAX_OF_TRIAL, Place, Room
from .server import (
    SEND_SECONDS,
    Refusal,
    Reply,
    Request,
    Server,
    answered,
    judged,
    refuse,
    unless_gone,
    upstream_failed,
)
from .sse import Block, EventReader, EventTooLarge
from .streams import Assembly
from .transcript import Transcript
from .upstream import Answer, Heard, Upstream, UpstreamFailed

MAX_CONNECTIONS = 1_024
MAX_EVENT_BYTES = 1024 * 1024
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: benchsite-gateway\r\nContent-Type: text/event-stream\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)
_ACCEPT = "application/json, text/event-stream"
_LAST_CHUNK = b"0\r\n\r\n"


class Desk:
    """The standing of one trial: what it has left, and how many of its requests are here."""

    def __init__(self, max_requests: int, seconds: float) -> None:
        self._left = max_requests
        self._seconds = seconds
        self._until: float | None = None
        self._present = 0
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)

    def seconds_left(self) -> float:
        """Until the trial's token expires; the time begins with its first request."""
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._seconds
        return self._until - now

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """One of the requests at once, as soon as it may be one. Raises NotAdmitted."""
        if self._present >= MAX_OF_TRIAL:
            raise NotAdmitted("busy")
        self._present += 1
        try:
            async with self._at_once:
                yield
        finally:
            self._present -= 1

    def take_step(self) -> None:
        """Count a request that goes to the endpoint now. Raises NotAdmitted."""
        if self._left <= 0:
            raise NotAdmitted("steps_used_up")
        self._left -= 1


@dataclass(frozen=True)
class StreamEnd(Reply):
    """The end of an answer of which everything else has gone on; `sent` counts the whole of it, in bytes."""

    sent: int = 0

    @property
    def size(self) -> int:
        return self.sent

    def encode(self) -> bytes:
        return self.body


class PassThroughServer(Server):
    """Answers requests of the declared pass-through APIs until `shut`."""

    max_connections = MAX_CONNECTIONS

    def __init__(
        self, config: Config, plan: PassThrough, upstream: Upstream, ledger: Ledger, transcript: Transcript
    ) -> None:
        super().__init__(config, upstream, ledger, transcript)
        self._plan = plan
        self._accepted = config.endpoint.accepted_models | {*plan.models}
        self._room = Room()
        self._timeout_s = config.limits.request_timeout_s
        steps = config.limits.max_steps
        self._standing = {trial: Desk(steps, plan.trial_timeout_s) for trial in range(1, config.limits.trials + 1)}

    async def _reply(self, incoming: Incoming, writer: asyncio.StreamWriter, request: Request) -> Reply:
        try:
            head = await incoming.head()
            path, mark, query = head.target.partition(b"?")
            if (head.method, path) == (b"GET", b"/v1/responses"):
                request.counts = False  # Codex asks so for an upgrade, some times over, before its first request
                raise Refusal("path")
            api = asked.find_api(head.method, path, self._plan.apis)
            lists = head.method == b"GET" and "models" in self._plan.apis
            model = asked.find_model(path, self._plan.models) if lists else None
            if api is None and model is None and not (lists and path == b"/v1/models"):
                raise Refusal("path")
            trial = self._identify(head)
            desk = self._standing[trial]
            request.entry.trial, request.entry.api = trial, "models" if api is None else api.name
            if desk.seconds_left() <= 0:
                raise Refusal("token_expired", 401)
            asked.check_query(query)
            if api is None:
                return self._listed(request, head, model)
            async with self._admitted(desk, head) as place:
                incoming.wait_anew()
                body = await incoming.body(head, asked.MAX_BODY_BYTES)
                place.give_back(place.held - len(body))
                request.entry.bytes_in = len(body)
                outgoing = asked.screen(body, api, self._plan.models)
                del body
                passing = _Passing(api, request, writer, place, self._credential, self._accepted)
                async with self._spent.turn(trial, request.entry, partial(unless_gone, incoming)):
                    desk.take_step()
                    return await self._forward(incoming, passing, head, (mark + query).decode("ascii"), outgoing, desk)
        except Refusal as refusal:
            return refuse(request.entry, refusal.code, refusal.status)
        except NotAdmitted as refused:
            return refuse(request.entry, refused.code, 429 if refused.code in ("busy", "rate_limit") else 404)
        except (BadRequest, Refused) as refused:
            return refuse(request.entry, refused.code, 404)

    def _identify(self, head: Head) -> int:
        """The one trial whose token stands in either header; a key that is nobody's beside it means nothing."""
        tokens = [*head.all(b"authorization"), *(b"Bearer " + key for key in head.all(b"x-api-key"))]
        found = {trial for token in tokens if (trial := self._book.trial_of(token)) is not None}
        repeated = any(len(head.all(name)) > 1 for name in (b"authorization", b"x-api-key"))
        if len(found) != 1 or repeated:
            raise Refusal("token", 401)
        return found.pop()

    def _listed(self, request: Request, head: Head, model: str | None) -> Reply:
        """The declared models, or one of them, in the form of the API whose header says so. It proves nothing."""
        request.entry.code, request.entry.status = "models", 200
        anthropic = head.one(b"anthropic-version") is not None
        entries = [_model(name, anthropic) for name in self._plan.models if model in (None, name)]
        if model is not None:
            return Reply(200, json.dumps(entries[0]).encode("ascii"))
        ends = {"has_more": False, "first_id": entries[0]["id"], "last_id": entries[-1]["id"]} if anthropic else {}
        return Reply(200, json.dumps({"object": "list", "data": entries, **ends}).encode("ascii"))

    @asynccontextmanager
    async def _admitted(self, desk: Desk, head: Head) -> AsyncIterator[Place]:
        """A place with room for the request's body, after as much waiting as a request may take."""
        length = head.one(b"content-length")
        size = asked.MAX_BODY_BYTES if length is None else min(int(length), asked.MAX_BODY_BYTES)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(min(self._timeout_s, desk.seconds_left())):
                    await stack.enter_async_context(desk.admitted())
                    place = await stack.enter_async_context(self._room.place())
                    await place.take(size)
            except TimeoutError:
                raise NotAdmitted("busy") from None
            yield place

    async def _forward(
        self, incoming: Incoming, passing: "_Passing", head: Head, query: str, outgoing: bytes, desk: Desk
    ) -> Reply:
        request, api = passing.request, passing.api
        headers = asked.passed_headers(head)
        request.reached_endpoint, request.sent = True, outgoing
        request.entry.request_sha256 = hashlib.sha256(outgoing).hexdigest()

        async def exchange() -> Reply:
            try:
                async with (
                    asyncio.timeout(min(self._timeout_s, desk.seconds_left())),
                    self._upstream.asked(api, _ACCEPT, headers, outgoing, query) as answer,
                ):
                    return await passing.on(answer)
            except TimeoutError:
                raise UpstreamFailed("timeout") from None

        try:
            return await unless_gone(incoming, exchange())
        except UpstreamFailed as failure:
            reply = upstream_failed(request.entry, failure.code)
            return StreamEnd(200, b"", sent=passing.passed_on) if passing.begun else reply


class _Passing:
    """One answer on its way to the asker. `begun` once its head has gone on."""

    def __init__(
        self,
        api: Api,
        request: Request,
        writer: asyncio.StreamWriter,
        place: Place,
        credential: str | None,
        accepted_models: frozenset[str],
    ) -> None:
        self.api = api
        self.request = request
        self.begun = False
        self.sent = 0
        self._writer = writer
        self._place = place
        self._credential = credential
        self._accepted = accepted_models
        self._digest = hashlib.sha256()
        self._kept: list[bytes] = []
        self._pieces = echo.Pieces(credential)
        self._held = bytearray()

    @property
    def passed_on(self) -> int:
        """Bytes of a stream that the asker was given so far."""
        return self.sent - len(self._held)

    async def on(self, heard: Heard) -> Reply:
        """Pass it on; what this returns is to be sent after the ledger's line. Raises UpstreamFailed, ClientGone."""
        entry = self.request.entry
        entry.status = heard.status
        if heard.status == 200 and self.api.assembly is not None and heard.is_event_stream:
            return await self._stream(heard)
        parts = []
        async for piece in heard.pieces():
            await self._place.take(len(piece))
            parts.append(piece)
        answer = Answer(heard.status, b"".join(parts), heard.is_json, heard.retry_after)
        self.request.answered = answer.body
        if (failure := answered(entry, answer, self._credential)) is not None:
            return failure
        judged(entry, self.api.judge(answer.body, self._accepted))
        return Reply(answer.status, answer.body, answer.is_json)

    async def _stream(self, answer: Heard) -> Reply:
        assert self.api.assembly is not None
        assembly, reader = self.api.assembly(), EventReader(MAX_EVENT_BYTES)
        await self._write(_STREAM_HEAD)
        self.begun = True
        rest = b""
        try:
            async with aclosing(answer.pieces()) as pieces:
                async for piece in pieces:
                    blocks = _up_to_the_end(reader.feed(piece), assembly)
                    rest = self._checked(blocks, last=assembly.ended)
                    if assembly.ended:
                        break
                    await self._place.take(min(len(piece), max(0, MAX_JUDGED_BYTES - self.sent)))
                    await self._write(_chunk(rest))
                else:
                    rest = self._checked(_up_to_the_end(reader.finish(), assembly), last=True)
        except EventTooLarge:
            raise UpstreamFailed("too_large") from None
        entry = self.request.entry
        entry.response_sha256 = self._digest.hexdigest()
        self.request.answered = b"".join(self._kept) if self.sent <= MAX_JUDGED_BYTES else None
        judged(entry, assembly.judge(self.api.judge, self._accepted))
        return StreamEnd(200, _chunk(rest) + _LAST_CHUNK, sent=self.sent)

    def _checked(self, blocks: list[Block], *, last: bool) -> bytes:
        """What may go on now, without what may turn out to be the beginning of the credential."""
        data = b"".join(block.raw for block in blocks)
        said = [self._pieces.add(block.event.data) for block in blocks if block.event is not None]
        if any(said) or echo.holds(data, self._credential):
            raise UpstreamFailed("credential_echoed")
        self._digest.update(data)
        self.sent += len(data)
        if self.sent <= MAX_JUDGED_BYTES:
            self._kept.append(data)
        self._held += data
        if self._pieces.pending and not last:
            return b""
        data, self._held = bytes(self._held), bytearray()
        return data

    async def _write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ClientGone(True)
        self._writer.write(data)
        if not self._writer.transport.get_write_buffer_size():
            return  # the system has taken all of it, as it mostly does
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()
        except (TimeoutError, OSError):
            raise ClientGone(True) from None


def _up_to_the_end(blocks: list[Block], assembly: Assembly) -> list[Block]:
    """The blocks that go on: those behind the stream's end do not."""
    for number, block in enumerate(blocks, 1):
        if block.event is not None:
            assembly.add(block.event)
        if assembly.ended:
            return blocks[:number]
    return blocks


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _model(name: str, anthropic: bool) -> dict[str, Any]:
    if anthropic:
        return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": "endpoint"}
