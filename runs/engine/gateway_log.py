"""What has the gateway written so far? A thread follows its output and copies whole lines to a file."""

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import docker

from runs.containers import EngineError, connect, engine_call

MAX_LOG_BYTES = 64 * 1024 * 1024
_MAX_DIAGNOSTICS = 16 * 1024


def container_log(api: docker.APIClient, container_id: str) -> bytes:
    """The container's whole standard output, up to a bound. Raises EngineError."""
    with engine_call("read log"):
        output = api.logs(container_id, stdout=True, stderr=False, stream=False)
    return bytes(output[: MAX_LOG_BYTES + 1])


class LogFollower:
    """Copies complete lines of standard output to `ledger` (0600) as they come, and keeps the first event.

    Holds a client of its own: its stream would keep another thread's calls waiting.
    """

    def __init__(self, container_id: str, ledger: Path) -> None:
        self._container_id = container_id
        self._ledger = ledger
        self._changed = threading.Condition()
        self._event: dict[str, Any] | None = None
        self._errors = b""
        self._rest = b""
        self._ended = False
        self._stream: Any = None
        self._thread = threading.Thread(target=self._follow, name="gateway-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def diagnostics(self) -> str:
        """What came on standard error, bounded; private."""
        return self._errors.decode("utf-8", "replace")

    def wait_for_event(self, seconds: float) -> dict[str, Any] | None:
        """The first event on standard error, or None when none came in time or the output ended."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._event is None and not self._ended and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            return self._event

    def stop(self, seconds: float) -> None:
        """Wait so long for the end of the output, then let go of it."""
        self._thread.join(seconds)
        if self._thread.is_alive() and self._stream is not None:
            self._interrupt()
            self._thread.join(1.0)

    def _follow(self) -> None:
        descriptor = os.open(self._ledger, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._copy(descriptor)
        except (EngineError, OSError, ValueError):
            pass  # the whole log is read at the end; a follower that lost its stream has ended
        finally:
            os.close(descriptor)
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _copy(self, descriptor: int) -> None:
        api = connect()
        try:
            with engine_call("follow log"):
                self._stream = api.attach(
                    self._container_id, stdout=True, stderr=True, stream=True, logs=True, demux=True
                )
                for output, errors in self._stream:
                    self._take_output(descriptor, output or b"")
                    self._take_errors(errors or b"")
        finally:
            self._interrupt()
            if self._stream is not None:
                self._stream._response.close()
            api.close()

    def _interrupt(self) -> None:
        """End the read that the thread may be in; the client's own call, which leaves the response open."""
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError, docker.errors.DockerException):
                self._stream.close()

    def _take_output(self, descriptor: int, data: bytes) -> None:
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if newline:
            os.write(descriptor, whole + newline)

    def _take_errors(self, data: bytes) -> None:
        if not data or len(self._errors) >= _MAX_DIAGNOSTICS:
            return
        with self._changed:
            self._errors += data
            line, newline, _ = self._errors.partition(b"\n")
            if newline and self._event is None:
                self._event = _event(line)
                self._changed.notify_all()


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    return event if isinstance(event, dict) else {"event": "failed", "code": "ended"}
