"""A real gateway process on loopback, and an endpoint that answers with exactly the bytes a test gives it."""

import http.client
import json
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.documents.ledger import LedgerReport, read_ledger
from runs.engine.network.gateway import trial_token
from tests.gateway.bodies import ALIAS, MAX_TOKENS, completion, encoded

PROGRAM = Path(__file__).parents[2] / "runs" / "images" / "gateway"
CREDENTIAL = "SENTINEL-c0ffee-1234567890"
# No budget, no pace, no price.
FREE: dict[str, Any] = {
    "prices": [0, 0, 0], "caps": [],
    "requests_per_minute": None, "tokens_per_minute": None, "concurrent_requests": None,
}  # fmt: skip
RUN_KEY = bytes(range(32))
PATIENCE_S = 60.0


def http_answer(body: bytes | dict[str, Any], *, status: str = "200 OK", headers: str = "") -> bytes:
    """Raw HTTP/1.1 bytes of an answer with a length."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return f"{head}{headers}\r\n".encode() + content


@dataclass
class RawEndpoint:
    """What was asked, byte for byte; `respond` makes the answer (b"" hangs up, None never answers)."""

    respond: Callable[[bytes], bytes | None]
    port: int = 0
    heard: list[bytes] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)


@contextmanager
def raw_endpoint(
    respond: Callable[[bytes], bytes | None] = lambda _: http_answer(completion()),
    context: ssl.SSLContext | None = None,
) -> Iterator[RawEndpoint]:
    """Serve `respond` on loopback, one request per connection."""
    endpoint = RawEndpoint(respond)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            link = self.request
            if context is not None:
                try:
                    link = context.wrap_socket(link, server_side=True)
                except (ssl.SSLError, OSError):
                    return
            with link:
                request = _whole_request(link)
                endpoint.heard.append(request)
                answer = endpoint.respond(request)
                if answer is None:
                    endpoint.release.wait(PATIENCE_S)
                elif answer:
                    link.sendall(answer)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A gateway that hangs up early is part of the tests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        endpoint.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.release.set()
            server.shutdown()
            thread.join()


def _whole_request(link: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(link)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += _some(link)
    return head + b"\r\n\r\n" + body


def _some(link: socket.socket) -> bytes:
    data = link.recv(65536)
    if not data:
        raise ConnectionError("the gateway hung up")
    return data


def configuration(base_url: str, pass_through: dict[str, Any] | None = None, **limits: Any) -> dict[str, Any]:
    caps = {"trials": 3, "max_steps": 5, "max_completion_tokens": MAX_TOKENS, "request_timeout_s": 60.0, "sampling": {}}
    return {
        "schema": "benchsite.gateway-config/v4",
        "run": {"id": "0" * 32, "spec_sha256": "1" * 64, "nonce": "2" * 32},
        "run_key": RUN_KEY.hex(),
        "credential": CREDENTIAL,
        "listen": {"host": "127.0.0.1", "port": 0},
        "endpoint": {
            "base_url": base_url,
            "connect_host": None,
            "model": ALIAS,
            "served_models": [],
            "addresses": {"private": True, "within": None},
            "headers": {},
            "ca_pem": None,
        },
        "limits": caps | limits,
        "spending": dict(FREE),
        "pass_through": pass_through,
    }


class GatewayProcess:
    """The program as the container runs it, isolated; `stop` ends it and reads its ledger."""

    def __init__(self, config: dict[str, Any] | bytes, env: dict[str, str] | None = None) -> None:
        line = config if isinstance(config, bytes) else json.dumps(config).encode() + b"\n"
        # A pipe that nobody reads would hold up a long ledger.
        self._written = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=self._written,
            stderr=subprocess.PIPE,
            env=env or {},
        )
        assert self.process.stdin and self.process.stderr
        self.process.stdin.write(line)
        self.process.stdin.flush()
        self.event: dict[str, Any] = json.loads(self.process.stderr.readline() or b"{}")
        self.port = self.event.get("port", 0)
        self.output = self.errors = b""

    def ask(
        self,
        body: bytes | None = None,
        *,
        method: str = "POST",
        path: str = "/v1/chat/completions",
        trial: int = 1,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """One request as trial `trial`; a header given as "" is left out."""
        own = {"Authorization": f"Bearer {trial_token(RUN_KEY, trial)}", "Content-Type": "application/json"}
        sent = {name: value for name, value in {**own, **(headers or {})}.items() if value}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            link.request(method, path, encoded() if body is None and method == "POST" else body, sent)
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()

    def raw(self, data: bytes, *, then_close: bool = False) -> bytes:
        """Send bytes as they are and read the answer to its end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as link:
            link.sendall(data)
            if then_close:
                return b""
            return _until_end(link)

    def stop(self) -> LedgerReport:
        if self.event.get("event") == "ready" and self.process.poll() is None:
            self.process.terminate()
        self.errors = self.process.communicate(timeout=PATIENCE_S)[1] or self.errors
        if not self._written.closed:
            self._written.seek(0)
            self.output = self._written.read()
            self._written.close()
        return read_ledger(self.output)


def _until_end(link: socket.socket) -> bytes:
    parts = []
    try:
        while data := link.recv(65536):
            parts.append(data)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def running(config: dict[str, Any] | bytes, env: dict[str, str] | None = None) -> Iterator[GatewayProcess]:
    gateway = GatewayProcess(config, env)
    try:
        yield gateway
    finally:
        gateway.stop()


def error_code(answer: tuple[int, bytes]) -> tuple[int, str]:
    """Status and the gateway's own code of an answer."""
    status, body = answer
    return status, str(json.loads(body)["error"]["code"])


def head(trial: int = 1, extra: str = "", target: str = "POST /v1/chat/completions HTTP/1.1") -> bytes:
    """A request head without the blank line's second half: add framing headers in `extra`."""
    token = trial_token(RUN_KEY, trial)
    lines = f"{target}\r\nHost: g\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    return f"{lines}{extra}\r\n".encode("latin-1")
