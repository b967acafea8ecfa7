"""The bytes into and out of one exec: a bounded, interruptible connection to the engine's socket.

The engine's Python client hands out a socket behind a buffer that may already have swallowed the first
frames, and its reads cannot be interrupted; so this speaks the one upgraded request itself.
"""

import json
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from runs.wire.failures import EngineFailed

DEFAULT_SOCKET = "/var/run/docker.sock"
STDOUT, STDERR = 1, 2
CHUNK = 64 * 1024
MAX_HEAD = 16 * 1024
HEAD_TIMEOUT_S = 30.0


def engine_socket() -> str:
    """The engine's Unix socket, as the environment names it; EngineFailed for any other transport."""
    host = os.environ.get("DOCKER_HOST", "")
    if not host:
        return DEFAULT_SOCKET
    parts = urlsplit(host)
    if parts.scheme != "unix" or not parts.path:
        raise EngineFailed("engine.transport", "The container engine must be reached by its Unix socket.", host)
    return parts.path


class Attachment:
    """One started exec. Used by one thread; `abort` may be called from any."""

    def __init__(self, connection: socket.socket, rest: bytes) -> None:
        self._connection = connection
        self._buffer = bytearray(rest)
        self._stdin_open = True
        self._unsaid = b""
        self.aborted = False

    @classmethod
    def open(cls, path: str, exec_id: str, api_version: str) -> "Attachment":
        """Start the exec and take over its connection. Raises OSError or EngineFailed."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(HEAD_TIMEOUT_S)
            connection.connect(path)
            connection.sendall(_start_request(exec_id, api_version))
            rest = _read_head(connection)
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return cls(connection, rest)

    def frames(
        self, stdin: Iterator[bytes] | None, deadline: float, tick_s: float
    ) -> Iterator[tuple[int, bytes] | None]:
        """Yield (stream, bytes) until the exec's output ends, and None every `tick_s` seconds of silence.

        Feeds `stdin` meanwhile and half-closes after it. Ends silently at `deadline` (monotonic) too.
        """
        pending = b""
        self._stdin_open = stdin is not None
        while True:
            while (frame := self._frame()) is not None:
                yield frame
            if time.monotonic() >= deadline:
                return
            wants_write = self._stdin_open
            readable, writable, _ = select.select(
                [self._connection],
                [self._connection] if wants_write else [],
                [],
                max(0.0, min(tick_s, deadline - time.monotonic())),
            )
            if not readable and not writable:
                yield None
            if writable and stdin is not None:
                pending = self._send(pending or next(stdin, b""))
            if readable and not self._receive():
                return

    def say(self, data: bytes) -> None:
        """Write to the exec's standard input, for whoever reads frames without feeding it.

        Waits for nothing: what does not fit now goes with what is said next. Raises OSError.
        """
        self._unsaid += data
        try:
            self._unsaid = self._unsaid[self._connection.send(self._unsaid) :]
        except BlockingIOError:
            return

    def abort(self) -> None:
        """Make the reading thread stop at once."""
        self.aborted = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()

    def _send(self, data: bytes) -> bytes:
        if not data:
            self._stdin_open = False
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            return b""
        try:
            return data[self._connection.send(data) :]
        except BlockingIOError:
            return data
        except (BrokenPipeError, ConnectionResetError):
            self._stdin_open = False
            return b""

    def _receive(self) -> bool:
        try:
            data = self._connection.recv(CHUNK)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._buffer += data
        return bool(data)

    def _frame(self) -> tuple[int, bytes] | None:
        """Take one frame, or the part of a long one that is here, out of the buffer."""
        if len(self._buffer) < 8:
            return None
        size = int.from_bytes(self._buffer[4:8], "big")
        if len(self._buffer) < 8 + size:
            return None
        stream, data = self._buffer[0], bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        return stream, data


def _start_request(exec_id: str, api_version: str) -> bytes:
    body = json.dumps({"Detach": False, "Tty": False}).encode()
    head = (
        f"POST /v{api_version}/exec/{exec_id}/start HTTP/1.1\r\n"
        "Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _read_head(connection: socket.socket) -> bytes:
    """Read the answer's head; returns what came after it. EngineFailed when the exec did not start."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        more = connection.recv(CHUNK)
        if not more or len(data) > MAX_HEAD:
            raise EngineFailed("engine.exec_start", "The container engine broke off an exec.", "no head")
        data += more
    head, _, rest = bytes(data).partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0]
    if b" 101 " not in status and b" 200 " not in status:
        detail = f"{status.decode('latin-1')} {rest[:300].decode('latin-1')}"
        raise EngineFailed("engine.exec_start", "The container engine refused to start a command.", detail)
    return rest
