"""What does Ctrl-C mean while a command waits for a run? First: end the run. Second: stop waiting (issue 7.1)."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# CI systems end a job with one or the other.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts the signals. The first one only sets a flag, so that it never breaks off what is being done."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether somebody asked for the end."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the first signal. Later signals raise KeyboardInterrupt wherever they come."""
        if not self.asked:
            self._asked.wait(seconds)
        else:
            threading.Event().wait(seconds)

    def receive(self, signum: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.asked:
            raise KeyboardInterrupt
        self._asked.set()


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count SIGINT and SIGTERM as long as the context lasts. Outside the main thread none ever comes."""
    found = Interrupts()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, found.receive) for number in _SIGNALS}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
