"""The gateway's log so far, read from the engine's log file and never from an attached stream.

An attached stream was measured to lose lines that came while it was being opened (one start in sixty on a busy
host); the log has every line, in order.
"""

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import docker

from runs.containers import Deadline, EngineError, connect, engine_call

MAX_LOG_BYTES = 64 * 1024 * 1024
POLL_SECONDS = 0.03
READ_S = 20.0  # for the whole log, when a deadline is kept
_MAX_EVENTS_BYTES = 16 * 1024


def container_log(api: docker.APIClient, container_id: str, deadline: Deadline | None = None) -> bytes:
    """The container's whole standard output, up to a bound. Raises EngineError."""
    with engine_call("read log", deadline, READ_S):
        output = api.logs(container_id, stdout=True, stderr=False, stream=False)
    return bytes(output[: MAX_LOG_BYTES + 1])


class LogFollower:
    """A thread that copies complete lines of standard output to `ledger` (0600) as they come.

    Holds a client of its own: its stream would keep another thread's calls waiting.
    """

    def __init__(self, container_id: str, ledger: Path) -> None:
        self._container_id = container_id
        self._ledger = ledger
        self._rest = b""
        self._ended = False
        self._stream: Any = None
        self._thread = threading.Thread(target=self._follow, name="gateway-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    def first_event(self, api: docker.APIClient, seconds: float) -> dict[str, Any] | None:
        """The gateway's first event on standard error; None when it ended, or the time did, without one.

        Raises EngineError.
        """
        deadline = time.monotonic() + seconds
        while True:
            over = self._ended or time.monotonic() >= deadline
            line, newline, _ = self.events(api).encode().partition(b"\n")
            if newline or over:
                return _event(line) if newline else None
            time.sleep(POLL_SECONDS)

    def events(self, api: docker.APIClient) -> str:
        """What came on standard error, bounded; private. Raises EngineError."""
        with engine_call("read log"):
            errors = api.logs(self._container_id, stdout=False, stderr=True, stream=False)
        return bytes(errors[:_MAX_EVENTS_BYTES]).decode("utf-8", "replace")

    def stop(self, seconds: float) -> None:
        """Wait so long for the end of the output, then let go of it."""
        self._thread.join(seconds)
        if self._thread.is_alive():
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
            self._ended = True

    def _copy(self, descriptor: int) -> None:
        api = connect()
        try:
            with engine_call("follow log"):
                self._stream = api.logs(self._container_id, stdout=True, stderr=False, stream=True, follow=True)
                for output in self._stream:
                    whole, newline, self._rest = (self._rest + output).rpartition(b"\n")
                    if newline:
                        os.write(descriptor, whole + newline)
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


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    return event if isinstance(event, dict) else {"event": "failed", "code": "ended"}
