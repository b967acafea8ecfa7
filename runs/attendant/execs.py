"""One command in a container: bounded output, a limit of its own, its true exit code."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from runs.attendant.attach import STDERR, STDOUT, Attachment, engine_socket
from runs.containers import engine_call

TICK_S = 1.0
# The engine itself waits up to 2 s for a stream that an orphan holds open before it says that it ended.
ORPHAN_TICKS = 2
EXIT_CODE_WAIT_S = 20.0
STDERR_BYTES = 16 * 1024


class ExecEngine(Protocol):
    """The calls of docker.APIClient that running a command needs."""

    api_version: str

    def exec_create(self, container: str, cmd: list[str], **options: Any) -> dict[str, Any]: ...
    def exec_inspect(self, exec_id: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Command:
    """An argument list, never a shell's line unless the list itself names the shell."""

    argv: tuple[str, ...]
    user: str = ""
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Ended:
    """`exit_code` is None when the command did not end by itself (deadline, abort)."""

    exit_code: int | None
    duration_s: float
    started_mono: float
    timed_out: bool = False
    aborted: bool = False
    orphaned: bool = False


class Interrupt:
    """Lets another thread stop a running exec; safe before, during and after it."""

    def __init__(self) -> None:
        self._attachment: Attachment | None = None
        self.asked = False

    def attach(self, attachment: Attachment) -> None:
        self._attachment = attachment
        if self.asked:
            attachment.abort()

    def __call__(self) -> None:
        self.asked = True
        if self._attachment is not None:
            self._attachment.abort()


class Tail:
    """Keeps the first and the last half of `limit` bytes, and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def truncated(self) -> bool:
        return self.total > 2 * self._half

    def text(self) -> str:
        tail = self._tail[-self._half :]
        between = b"\n[output cut here]\n" if self.truncated else b""
        return (bytes(self._head) + between + bytes(tail)).decode("utf-8", "replace")


class Running:
    """A started exec whose standard output is read by iterating `chunks`; `finish` gives how it ended."""

    def __init__(
        self,
        api: ExecEngine,
        container_id: str,
        command: Command,
        *,
        limit_s: float,
        stdin: Iterator[bytes] | None = None,
        interrupt: Interrupt | None = None,
    ) -> None:
        self._api = api
        self.stderr = Tail(STDERR_BYTES)
        self._started = time.monotonic()
        self._deadline = self._started + limit_s
        self._stdin = stdin
        self._orphaned = False
        self._exec_id = _create(api, container_id, command, stdin is not None)
        with engine_call("start exec"):
            self._attachment = Attachment.open(engine_socket(), self._exec_id, api.api_version)
        if interrupt is not None:
            interrupt.attach(self._attachment)

    def chunks(self) -> Iterator[bytes]:
        """Standard output as it comes. Standard error goes to `stderr`."""
        silent = 0
        with engine_call("read exec"):
            for frame in self._attachment.frames(self._stdin, self._deadline, TICK_S):
                if frame is None:
                    running = self._api.exec_inspect(self._exec_id).get("Running")
                    silent = 0 if running else silent + 1
                    if silent >= ORPHAN_TICKS:
                        self._orphaned = True
                        return
                elif frame[0] == STDOUT:
                    yield frame[1]
                elif frame[0] == STDERR:
                    self.stderr.add(frame[1])

    def close(self) -> None:
        """Let go of the connection. The command itself is not stopped by this."""
        self._attachment.close()

    def finish(self) -> Ended:
        """Let go and ask for the exit code."""
        aborted = self._attachment.aborted
        self.close()
        late = time.monotonic() >= self._deadline
        code = None if aborted else self._exit_code(wait=not late)
        now = time.monotonic()
        return Ended(
            exit_code=code,
            duration_s=round(now - self._started, 6),
            started_mono=self._started,
            timed_out=late and code is None,
            aborted=aborted,
            orphaned=self._orphaned,
        )

    def _exit_code(self, *, wait: bool) -> int | None:
        end = time.monotonic() + (EXIT_CODE_WAIT_S if wait else 0.0)
        pause = 0.005
        while True:
            with engine_call("inspect exec"):
                seen = self._api.exec_inspect(self._exec_id)
            if not seen.get("Running"):
                code = seen.get("ExitCode")
                return code if isinstance(code, int) else None
            if time.monotonic() >= end:
                return None
            time.sleep(pause)
            pause = min(pause * 2, 0.2)


def run_to_end(
    api: ExecEngine,
    container_id: str,
    command: Command,
    *,
    limit_s: float,
    take: Callable[[bytes], None],
    stdin: Iterator[bytes] | None = None,
    interrupt: Interrupt | None = None,
) -> tuple[Ended, Tail]:
    """Run a command, giving its standard output to `take`; returns how it ended and its standard error."""
    running = Running(api, container_id, command, limit_s=limit_s, stdin=stdin, interrupt=interrupt)
    try:
        for chunk in running.chunks():
            take(chunk)
    except BaseException:
        running.close()
        raise
    return running.finish(), running.stderr


def _create(api: ExecEngine, container_id: str, command: Command, stdin: bool) -> str:
    with engine_call("create exec"):
        answer = api.exec_create(
            container_id,
            list(command.argv),
            stdin=stdin,
            environment=command.env,
            workdir=command.workdir,
            user=command.user,
        )
    return str(answer["Id"])
