"""The scripted endpoint: a small threaded HTTP server; every answer says that it is scripted.

The mode is chosen by the model alias, so one server serves a whole smoke. It asks for a key like a real one.
"""

import gzip
import hmac
import json
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from runs.checks.readiness import is_question
from runs.scripted import apis
from runs.scripted.scripts import (
    ALIAS_PREFIX,
    FAILING_AT_ONCE,
    GOOD_ANSWERS_BEFORE_FAILURE,
    Mode,
    Step,
    mistaken,
    mode_of,
    next_step,
    spoken,
)

LABEL = "scripted-endpoint-not-a-model"
OTHER_MODEL = "some-other-model"
DATE = "-2026-08-07"
ODD_NAME = "bash<|channel|>commentary"
# An agent gives up after three answers in a row that it cannot use.
ODD_ANSWERS = 2
RETRY_AFTER_S = 7
MAX_BODY_BYTES = 8 * 1024 * 1024
HOLD_SECONDS = 3600.0
SLOW_SECONDS = 15.0
_SOCKET_SECONDS = 30.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a JSON body, sent after `delay_s` seconds unless the asker is gone by then.

    `dressed` makes the bytes of it that are sent, where they are not the body's alone.
    """

    status: int
    body: dict[str, Any]
    delay_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    dressed: Callable[[bytes], bytes] = bytes


def answer_to(request: dict[str, Any], *, slow_s: float = SLOW_SECONDS) -> Answer:
    """What the endpoint says to a chat-completions request; an unknown alias gets 404 like a real one."""
    alias = str(request.get("model"))
    mode, messages = mode_of(alias), request.get("messages")
    if mode is None:
        return _error(404, f"The model {alias!r} does not exist.", "model_not_found")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return _error(400, "messages must be a list of objects.", "invalid_request_error")
    if is_question(messages) and mode not in FAILING_AT_ONCE:
        return Answer(200, ready(alias))
    match mode:
        case Mode.UNAUTHORIZED | Mode.UNAUTHORIZED_AT_ONCE:
            return _error(401, "Incorrect API key provided.", "invalid_api_key")
        case Mode.UNAVAILABLE | Mode.UNAVAILABLE_AT_ONCE:
            return _error(503, "The server is overloaded.", "unavailable")
        case Mode.MALFORMED:
            return Answer(200, {"ok": True, "scripted": LABEL})
        case Mode.LATE_FAILURE if spoken(messages) >= GOOD_ANSWERS_BEFORE_FAILURE:
            return _error(503, "The server failed late.", "unavailable")
        case Mode.CONTEXT_OVERFLOW if spoken(messages) >= GOOD_ANSWERS_BEFORE_FAILURE:
            return _error(400, "The conversation is longer than 16384 tokens.", "context_length_exceeded")
        case Mode.RATE_LIMITED:
            answer = _error(429, "Too many requests.", "rate_limit_exceeded")
            return replace(answer, headers={"Retry-After": str(RETRY_AFTER_S)})
        case Mode.RATE_LIMITED_INSIDE:
            return Answer(200, {"error": {"code": 429, "message": f"Too many requests. ({LABEL})"}})
        case Mode.SIGNED if not all(map(_is_signed, _spoken(messages), range(1, spoken(messages) + 1))):
            return _error(400, "A signature did not come back.", "missing_signature")
    named = {Mode.WRONG_MODEL: OTHER_MODEL, Mode.WRONG_MODEL_AT_ONCE: OTHER_MODEL, Mode.DATED_NAME: alias + DATE}
    delay = {Mode.HANG: HOLD_SECONDS, Mode.SLOW: slow_s}.get(mode, 0.0)
    body = completion(named.get(mode, alias), next_step(mode, messages), messages)
    _form(mode, body, messages)
    headers = {"Content-Encoding": "gzip"} if mode is Mode.COMPRESSED else {}
    return Answer(200, body, delay, headers, _DRESSES.get(mode, bytes))


def _form(mode: Mode, body: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    """Give a completion the form that its mode is about."""
    choice, number = body["choices"][0], spoken(messages) + 1
    message = choice["message"]
    match mode:
        case Mode.EMPTY_ID:
            message["tool_calls"][0]["id"] = ""
        case Mode.SIGNED:
            message["tool_calls"][0] |= {"id": "", "extra_content": _signature(number)}
            message["reasoning_details"] = [_signature(number)]
        case Mode.IN_PARTS:
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]}
            message["content"] = [thinking, {"type": "text", "text": message["content"]}]
        case Mode.ODD_NAME if mistaken(messages) < ODD_ANSWERS:
            message["tool_calls"][0]["function"]["name"] = ODD_NAME
        case Mode.NO_USAGE:
            body["usage"] = None
        case Mode.REASONING_CUT:
            choice["finish_reason"] = "length"
            choice["message"] = {"role": "assistant", "content": None, "reasoning_content": message["content"]}
        case Mode.REFUSING:
            choice["finish_reason"] = "content_filter"
            choice["message"] = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}


def _spoken(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message.get("role") == "assistant"]


def _signature(number: int) -> dict[str, Any]:
    return {"google": {"thought_signature": f"signature-{number}"}}


def _is_signed(message: dict[str, Any], number: int) -> bool:
    signature = _signature(number)
    calls = message.get("tool_calls") or [{}]
    return bool(calls[0].get("extra_content") == signature and message.get("reasoning_details") == [signature])


_DRESSES: dict[Mode, Callable[[bytes], bytes]] = {
    Mode.BANNER: lambda body: b"NOTICE: this proxy is a trial version.\n" + body,
    Mode.HTML: lambda _: b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>",
    Mode.EMPTY: lambda _: b"",
    Mode.CUT_OFF: lambda body: body[: len(body) // 2],
    Mode.EVENT_STREAM: lambda body: b"data: " + body + b"\n\n",
    Mode.COMPRESSED: gzip.compress,
}


def completion(model: str, step: Step, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A well-formed chat completion that says `step` after `messages`."""
    call_number = spoken(messages) + 1
    call = {"name": "bash", "arguments": json.dumps({"command": step.command})}
    message = {
        "role": "assistant",
        "content": step.words,
        "tool_calls": [{"id": f"scripted_{call_number}", "type": "function", "function": call}],
    }
    return _completion(model, message, "tool_calls", messages)


def ready(model: str) -> dict[str, Any]:
    """A well-formed completion that says that the endpoint is ready (`runs.checks.readiness`)."""
    return _completion(model, {"role": "assistant", "content": "ready"}, "stop", [])


def _completion(
    model: str, message: dict[str, Any], finish_reason: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    prompt, said = len(json.dumps(messages)) // 4, len(json.dumps(message)) // 4
    return {
        "id": f"chatcmpl-scripted-{spoken(messages) + 1}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": LABEL,
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said},
    }


def _error(status: int, message: str, code: str) -> Answer:
    return Answer(status, {"error": {"message": f"{message} ({LABEL})", "type": LABEL, "code": code}})


class ScriptedServer(ThreadingHTTPServer):
    """Serves until `shutdown`; `with` closes it, and what hangs then is let go.

    `answer` plays another script than those of the modes.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        bind: str,
        port: int,
        key: str,
        *,
        slow_s: float = SLOW_SECONDS,
        answer: Callable[[dict[str, Any]], Answer] | None = None,
    ) -> None:
        self.key = key
        self.answer = answer or partial(answer_to, slow_s=slow_s)
        self.closing = threading.Event()
        super().__init__((bind, port), _Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind without the lookup of the host's own name that the standard library makes here."""
        TCPServer.server_bind(self)

    def server_close(self) -> None:
        self.closing.set()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "benchsite-scripted-endpoint"
    sys_version = ""
    timeout = _SOCKET_SECONDS
    server: ScriptedServer

    def do_GET(self) -> None:
        if not self._is_known():
            self._send(_error(401, "Incorrect API key provided.", "invalid_api_key"))
        elif self.path == "/v1/models":
            models = [{"id": ALIAS_PREFIX + mode, "object": "model", "owned_by": LABEL} for mode in Mode]
            self._send(Answer(200, {"object": "list", "data": models}))
        else:
            self._send(_error(404, "There is no such path.", "not_found"))

    def do_POST(self) -> None:
        body = self._body()
        if not self._is_known():
            self._send(_error(401, "Incorrect API key provided.", "invalid_api_key"))
        elif (path := self.path.partition("?")[0]) not in apis.PATHS:
            self._send(_error(404, "There is no such path.", "not_found"))
        elif not isinstance(body, dict):
            self._send(_error(400, "The body is not a JSON object.", "invalid_request_error"))
        else:
            answer = self.server.answer(apis.as_chat(path, body))
            if self._hold(answer.delay_s):
                self._say(path, body, answer)

    def _is_known(self) -> bool:
        given = self.headers.get("Authorization") or f"Bearer {self.headers.get('x-api-key')}"
        return hmac.compare_digest(given.encode(), f"Bearer {self.server.key}".encode())

    def _body(self) -> Any:
        length = self.headers.get("Content-Length") or ""
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            return None
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None

    def _hold(self, seconds: float) -> bool:
        """Wait; False when the asker hung up or the server closes meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.server.closing.is_set() or self._asker_is_gone(min(left, _POLL_SECONDS)):
                self.close_connection = True
                return False
        return True

    def _asker_is_gone(self, seconds: float) -> bool:
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _say(self, path: str, request: dict[str, Any], answer: Answer) -> None:
        """Answer as the API of that path does, as a stream when it was asked for one and has something to say."""
        body = apis.said_as(path, request, answer.body)
        if not request.get("stream") or "usage" not in body:
            self._send(replace(answer, body=body))
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Scripted-Endpoint", LABEL)
        self.end_headers()
        options = request.get("stream_options")
        with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        for event in (*apis.streamed(path, body, with_usage), b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))

    def _send(self, answer: Answer) -> None:
        body = answer.dressed(json.dumps(answer.body).encode("utf-8"))
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Scripted-Endpoint", LABEL)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a request line is no news, and headers hold the key."""
