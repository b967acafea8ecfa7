"""Questions to other systems that take at most their bound, whatever that system does.

A driver's own timeouts do not cover name look-ups, hanging disks and half-open connections. So each question is asked
in a thread of its own, of which there is never more than one per question; an answer serves everybody for a moment.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

FRESH_FOR_S = 1.0


@dataclass
class _Asked[T]:
    """One time that the question was asked."""

    at: float
    done: threading.Event = field(default_factory=threading.Event)
    answer: T | None = None
    failure: Exception | None = None


class Unanswered(Exception):
    """There was no answer in time, or the question failed; the cause is for logs only."""


class Question[T]:
    """Asks `ask` and waits at most `bound_s` seconds. Safe to use from many threads."""

    def __init__(self, name: str, ask: Callable[[], T], *, bound_s: float) -> None:
        self.name, self._ask, self.bound_s = name, ask, bound_s
        self._lock = threading.Lock()
        self._last: _Asked[T] | None = None

    def begin(self) -> None:
        """Ask already, so that several questions are under way at once."""
        self._asked()

    def answer(self) -> T:
        """The answer, about a second old at most. Raises Unanswered."""
        asked = self._asked()
        if not asked.done.wait(max(0.0, asked.at + self.bound_s - time.monotonic())):
            raise Unanswered(f"{self.name}: no answer within {self.bound_s} s")
        if asked.failure is not None:
            raise Unanswered(f"{self.name}: {type(asked.failure).__name__}") from asked.failure
        return asked.answer  # type: ignore[return-value]

    def forget(self) -> None:
        """Ask anew the next time; a thread that still waits is left to itself."""
        with self._lock:
            self._last = None

    def _asked(self) -> _Asked[T]:
        """The question that is under way or was just answered, else a new one."""
        with self._lock:
            last = self._last
            if last is None or (last.done.is_set() and time.monotonic() - last.at > FRESH_FOR_S):
                last = self._last = _Asked(time.monotonic())
                threading.Thread(target=self._carry_out, args=(last,), name=self.name, daemon=True).start()
            return last

    def _carry_out(self, asked: _Asked[T]) -> None:
        try:
            asked.answer = self._ask()
        except Exception as error:  # whoever waits is told; nothing else may end this thread's question
            asked.failure = error
        finally:
            asked.done.set()
