"""The time that a cleanup's engine calls may take, and the socket that keeps to it. Standard library only."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALL_S = 5.0
CLEANUP_S = 60.0

_thread = threading.local()  # `.left`: how many seconds the present call of this thread still has


class Deadline:
    """A bound for many engine calls: `call_s` seconds for each and `total_s` for all, connecting and looking included.

    Pass the same one to every call of a cleanup. It counts from its making.
    """

    def __init__(
        self,
        total_s: float = CLEANUP_S,
        call_s: float = CALL_S,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.now = monotonic
        self._sleep = sleep
        self._call_s = call_s
        self._end = monotonic() + total_s

    @property
    def left(self) -> float:
        """Seconds until nothing more is asked; never negative."""
        return max(0.0, self._end - self.now())

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end."""
        self._sleep(min(seconds, self.left))

    @contextmanager
    def call(self, call_s: float | None = None) -> Iterator[None]:
        """Bound what this thread reads and writes on a `BoundedSocket` meanwhile, whole and not each time anew.

        Raises TimeoutError at once when no time is left, so that nothing is asked any more.
        """
        end = self.now() + min(self._call_s if call_s is None else call_s, self.left)
        if self.now() >= end:
            raise TimeoutError("timed out before it was asked")
        outer = getattr(_thread, "left", None)
        _thread.left = lambda: end - self.now()
        try:
            yield
        finally:
            _thread.left = outer


class BoundedSocket(socket.socket):
    """A socket on which a peer that sends one byte now and then does not get more time than the call has.

    A socket's own timeout starts anew with every byte. Without a `Deadline.call` around it, that one holds.
    """

    def connect(self, address: Any, /) -> None:
        self._bound()
        super().connect(address)

    def recv(self, *arguments: Any) -> bytes:
        self._bound()
        return super().recv(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._bound()
        return super().recv_into(*arguments)

    def send(self, *arguments: Any) -> int:
        self._bound()
        return super().send(*arguments)

    def sendall(self, *arguments: Any) -> None:
        self._bound()
        super().sendall(*arguments)

    def _bound(self) -> None:
        left_of_call = getattr(_thread, "left", None)
        if left_of_call is None:
            return
        left = left_of_call()
        if left <= 0:
            raise TimeoutError("timed out")
        own = self.gettimeout()
        self.settimeout(left if own is None else min(own, left))
