"""The answering of one request: who asks, may they, may this go out, what came back; each step once, in order.

The ledger line is written before the answer is sent. A refusal is 404 or 401, which ends the agent at once.
"""

import asyncio
import hashlib
import json
import resource
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from . import complaints, completion, echo, policy
from .admission import NotAdmitted, open_desks
from .completion import Judgement
from .config import Config
from .incoming import BadRequest, ClientGone, Head, Incoming
from .ledger import Entry, Ledger
from .policy import Declared, Refused
from .said import Said
from .spending import Spent
from .tokens import TokenBook
from .transcript import Transcript
from .upstream import Answer, Upstream, UpstreamFailed

MAX_CONNECTIONS = 64
SEND_SECONDS = 10.0
_OTHER_FILES = 64
_REASONS = {
    200: "OK",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}

Result = TypeVar("Result")


class Refusal(Exception):
    """The request goes nowhere; `code` is stable and goes to the ledger and to the asker."""

    def __init__(self, code: str, status: int = 404) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    is_json: bool = True
    retry_after_s: int | None = None

    @property
    def size(self) -> int:
        return len(self.body)

    def encode(self) -> bytes:
        kind = "application/json" if self.is_json else "text/plain; charset=utf-8"
        later = "" if self.retry_after_s is None else f"Retry-After: {self.retry_after_s}\r\n"
        head = (
            f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Answer')}\r\nServer: benchsite-gateway\r\n{later}"
            f"Content-Type: {kind}\r\nContent-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii") + self.body


class Request:
    """What is known so far about a request that is being answered; one that does not count has no line."""

    def __init__(self) -> None:
        self.counts = True
        self.entry = Entry()
        self.reached_endpoint = False
        self.sent = b""
        self.answered: bytes | None = None
        self._started = time.monotonic()

    def duration_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


class Server:
    """Answers connections until `shut`; what was said goes to the transcript, and stays nowhere else."""

    max_connections = MAX_CONNECTIONS

    def __init__(self, config: Config, upstream: Upstream, ledger: Ledger, transcript: Transcript) -> None:
        self._endpoint = config.endpoint
        self._declared = Declared(config.endpoint.model, config.limits.max_completion_tokens, config.limits.sampling)
        self._book = TokenBook(config.run_key, config.limits.trials)
        self._desks = open_desks(config.limits)
        self._said = {trial: Said(config.limits.trials) for trial in self._desks}
        self._spent = Spent(config.spending)
        self._credential = config.credential
        self._upstream = upstream
        self._ledger = ledger
        self._transcript = transcript
        self._open: set[asyncio.Task[None]] = set()
        self.max_connections = min(self.max_connections, _affordable())

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request, one answer, closed."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= self.max_connections:
            self._ledger.record(Entry(code="connections"), reached_endpoint=False)
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            await self._serve(Incoming(reader), writer)
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def shut(self, grace_s: float) -> None:
        """Stop what is being answered; each such request gets its line before this returns."""
        pending = set(self._open)
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending, timeout=grace_s)

    async def _serve(self, incoming: Incoming, writer: asyncio.StreamWriter) -> None:
        request = Request()
        try:
            reply = await self._reply(incoming, writer, request)
        except ClientGone as gone:
            if gone.said_something:
                self._record(request, refuse(request.entry, "client_gone", None))
            return
        except asyncio.CancelledError:
            self._record(request, refuse(request.entry, "closing", None))
            return
        self._record(request, reply)
        await _send(incoming, writer, reply)

    def _record(self, request: Request, reply: Reply) -> None:
        if not request.counts:
            return
        request.entry.bytes_out = reply.size
        request.entry.duration_ms = request.duration_ms()
        if request.reached_endpoint:
            self._spent.count(request.entry, len(request.sent))
        line = self._ledger.record(request.entry, reached_endpoint=request.reached_endpoint)
        if request.reached_endpoint:
            self._transcript.keep(line, request.sent, request.answered)

    async def _reply(self, incoming: Incoming, _writer: asyncio.StreamWriter, request: Request) -> Reply:
        try:
            head = await incoming.head()
            route = _route(head)
            trial = self._identify(head)
            request.entry.trial = trial
            desk = self._desks[trial]
            request.entry.session_matches = desk.compare_session(head.one(b"x-session-id"))
            if route == "models":
                return self._models(request.entry)
            with desk:
                return await self._complete(incoming, head, trial, request)
        except Refusal as refusal:
            return refuse(request.entry, refusal.code, refusal.status)
        except (BadRequest, Refused, NotAdmitted) as refused:
            return refuse(request.entry, refused.code, 404)

    def _identify(self, head: Head) -> int:
        values = head.all(b"authorization")
        trial = self._book.trial_of(values[0]) if len(values) == 1 else None
        if trial is None:
            raise Refusal("token", 401)
        return trial

    def _models(self, entry: Entry) -> Reply:
        """Answered here: what else the endpoint serves is nobody's business. It proves nothing."""
        entry.code, entry.status = "models", 200
        model = {"id": self._endpoint.model, "object": "model", "created": 0, "owned_by": "endpoint"}
        return Reply(200, json.dumps({"object": "list", "data": [model]}).encode("utf-8"))

    async def _complete(self, incoming: Incoming, head: Head, trial: int, request: Request) -> Reply:
        desk, said = self._desks[trial], self._said[trial]
        try:
            body = await incoming.body(head, policy.MAX_BODY_BYTES)
            request.entry.bytes_in = len(body)
            outgoing = policy.screen(body, self._declared, said)
        except (BadRequest, Refused) as refused:
            raise Refusal(policy.own_fault(refused.code, said) or refused.code) from None
        async with self._spent.turn(trial, request.entry, partial(unless_gone, incoming)):
            desk.take_step()
            request.reached_endpoint, request.sent = True, outgoing
            request.entry.request_sha256 = hashlib.sha256(outgoing).hexdigest()
            try:
                answer = await unless_gone(incoming, self._upstream.complete(outgoing))
            except UpstreamFailed as failure:
                return upstream_failed(request.entry, failure.code)
        request.answered = answer.body
        return self._pass_on(answer, request.entry, said)

    def _pass_on(self, answer: Answer, entry: Entry, said: Said) -> Reply:
        if (failure := answered(entry, answer, self._credential)) is not None:
            return replace(failure, retry_after_s=None)  # an agent of an environment run never retries
        judgement = completion.judge(answer.body, self._endpoint.accepted_models)
        judged(entry, judgement)
        if judgement.message is not None and judgement.spoken is not None:
            said.keep(judgement.message, judgement.spoken)
        if judgement.readable is None:
            return Reply(answer.status, answer.body, answer.is_json)
        # Put together, parts may say what none of them says.
        if echo.holds(judgement.readable, self._credential):
            return upstream_failed(entry, "credential_echoed")
        return Reply(answer.status, judgement.readable)


def _affordable() -> int:
    """Connections of askers for which there are open files, each with one to the endpoint. Without any left the gateway
    could reach nobody, and that would be the endpoint's fault."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, (most - _OTHER_FILES) // 2)


def _route(head: Head) -> str:
    match head.method, head.target:
        case b"POST", b"/v1/chat/completions":
            return "completions"
        case b"GET", b"/v1/models":
            return "models"
    raise Refusal("path")


async def unless_gone(incoming: Incoming, work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result; ClientGone as soon as the asker hangs up, and then the work is stopped."""
    answering = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(incoming.until_gone())
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        raise ClientGone(True)
    finally:
        answering.cancel()
        watching.cancel()
        await asyncio.gather(answering, watching, return_exceptions=True)


def answered(entry: Entry, answer: Answer, credential: str | None) -> Reply | None:
    """Take over that this answer came. What is said instead of one that is no 2xx, or that holds the credential; None
    for any other, which is to be judged by its body."""
    entry.status = answer.status
    entry.response_sha256 = hashlib.sha256(answer.body).hexdigest()
    if echo.holds(answer.body, credential):
        return upstream_failed(entry, "credential_echoed")
    if answer.status in (429, 503):
        entry.retry_after_s = complaints.retry_after_s(answer.retry_after)
    if answer.succeeded:
        return None
    overflows = complaints.overflows(answer.status, answer.body)
    entry.kind, entry.code = "upstream_error", "context_window" if overflows else "status"
    status = answer.status if answer.status >= 400 else 502
    return Reply(status, answer.body, answer.is_json, entry.retry_after_s)


def judged(entry: Entry, judgement: Judgement) -> None:
    """Take over what an answer was."""
    entry.kind, entry.code, entry.said_status = judgement.kind, judgement.code, judgement.said_status
    entry.flags = judgement.flags
    entry.prompt_tokens = judgement.prompt_tokens
    entry.completion_tokens = judgement.completion_tokens
    entry.cached_tokens = judgement.cached_tokens
    entry.reported_cost = judgement.reported_cost
    entry.message_sha256 = judgement.message_sha256


def refuse(entry: Entry, code: str, status: int | None) -> Reply:
    entry.kind, entry.code, entry.status = "refused", code, status
    if status is None:
        return Reply(0, b"")
    return Reply(status, _error(f"The gateway refused this request ({code}).", "gateway_refusal", code))


def upstream_failed(entry: Entry, code: str) -> Reply:
    entry.kind, entry.code = "upstream_error", code
    sentence = f"The endpoint gave no usable answer ({code})."
    return Reply(504 if code == "timeout" else 502, _error(sentence, "upstream", code))


def _error(message: str, kind: str, code: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode("utf-8")


async def _send(incoming: Incoming, writer: asyncio.StreamWriter, reply: Reply) -> None:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            writer.write(reply.encode())
            await writer.drain()
            writer.write_eof()
    except (TimeoutError, OSError):
        return
    await incoming.drain()
