"""The harness's end of the socket pair: one question at a time, answered by the trial's attendant.

A cancellation is passed on and waited for, so that a container that is being created when Harbor's limit strikes is
journaled before anyone goes on.
"""

import json
import os
import queue
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from runs.wire import failures, frames
from runs.wire.failures import AttendantError, EngineFailed
from runs.wire.frames import CHUNK, END, MESSAGE, Closed, Frame
from runs.wire.threads import in_thread

_WAITING = 64
KINDS: dict[str, type[AttendantError]] = {
    kind.__name__: kind
    for kind in (
        failures.StartRefused, failures.EngineFailed, failures.ExecTimedOut, failures.SourceAbsent,
        failures.TransferRefused, failures.TransferFailed, failures.Unsupported,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What the attendant said, and the contents that came with it, each from its start."""

    fields: dict[str, Any]
    contents: list[IO[bytes]]

    def text(self, number: int) -> str:
        return self.contents[number].read().decode("utf-8", "replace")


class Call:
    """One question on its way. A cancel is passed on only between the question and its answer."""

    def __init__(self) -> None:
        self.cancelled = self.asked = self.answered = False


class Attendant:
    """The one connection of this process. Blocking, in threads: no event loop that ends can cut a question off."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._one_question = threading.Lock()
        self._sending = threading.Lock()
        self._frames: queue.Queue[Frame | None] = queue.Queue(_WAITING)
        threading.Thread(target=self._listen, daemon=True, name="attendant").start()

    async def ask(self, do: str, *, content: Iterator[bytes] | None = None, **fields: Any) -> Answer:
        """The answer to one question. Raises the AttendantError that the attendant names."""
        call = Call()
        question = frames.message({"do": do, **fields})
        found = await in_thread(lambda: self._ask(call, question, content), on_cancel=lambda: self._cancel(call))
        if (error := found.fields.get("error")) is not None:
            raise KINDS.get(error["kind"], EngineFailed)(error["code"], error["sentence"])
        if found.fields.get("cancelled"):
            raise EngineFailed("exec.cancelled", "What was asked was cancelled.")
        return found

    def _ask(self, call: Call, question: bytes, content: Iterator[bytes] | None) -> Answer:
        with self._one_question:
            with self._sending:
                if call.cancelled:
                    return Answer({"cancelled": True}, [])
                self._send(question)
                for part in frames.stream(content) if content is not None else ():
                    self._send(part)
                call.asked = True
            fields = json.loads(self._frame().payload)
            answer = Answer(fields, [self._content() for _ in range(fields.pop("contents"))])
            with self._sending:
                call.answered = True
            return answer

    def _cancel(self, call: Call) -> None:
        with self._sending:
            call.cancelled = True
            if call.asked and not call.answered:
                self._send(frames.message({"do": "cancel"}))

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _lost() from error

    def _listen(self) -> None:
        """Everything that comes, in its order; a `terminate` is what TERM would be."""
        with suppress(Closed, frames.Violation, OSError):
            while True:
                frame = frames.receive(self._socket)
                if frame.kind == MESSAGE and json.loads(frame.payload).get("say") == "terminate":
                    os.kill(os.getpid(), signal.SIGTERM)
                else:
                    self._frames.put(frame)
        self._frames.put(None)

    def _content(self) -> IO[bytes]:
        spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked reads it
        while (frame := self._frame()).kind == CHUNK:
            spool.write(frame.payload)
        if frame.kind != END:
            raise _lost()
        spool.seek(0)
        return spool

    def _frame(self) -> Frame:
        frame = self._frames.get()
        if frame is None:
            self._frames.put(None)
            raise _lost()
        return frame


def _lost() -> EngineFailed:
    return EngineFailed("attendant.lost", "The trial's attendant is gone.")


_attendant: list[Attendant] = []


def connect(connection: socket.socket) -> None:
    """Keep the process's one connection; replaces an earlier one."""
    _attendant[:] = [Attendant(connection)]


def attendant() -> Attendant:
    """The connection. Raises EngineFailed where there is none: outside of a sandbox nothing is carried out."""
    if not _attendant:
        raise EngineFailed("attendant.none", "This process has no attendant.")
    return _attendant[0]
