"""How does a command show that long work goes on? Every ten seconds it says again what it does, and for how long.

So neither a person nor a CI system that ends silent jobs takes it for dead (issue 7). On a terminal the last line
moves; elsewhere these lines go to stderr, so that stdout holds results.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runs.management.output import Printer

EVERY_S = 10.0


class Heartbeat:
    """``report`` says a line that stays. While no other one comes, ``again`` is given the last one with its age."""

    def __init__(self, first: str, say: Callable[[str], None], again: Callable[[str], None], *, every_s: float) -> None:
        self._last, self._since, self._ended = first, time.monotonic(), False
        self._say, self._again, self._every_s = say, again, every_s
        self._news = threading.Event()

    def report(self, text: str) -> None:
        self._last, self._since = text, time.monotonic()
        self._say(text)
        self._news.set()  # the next ten seconds begin now

    def beat(self) -> None:
        """Until ``end``; in a thread of its own."""
        while not self._ended:
            if self._news.wait(self._every_s):
                self._news.clear()
            else:
                self._again(f"{self._last}, {time.monotonic() - self._since:.0f} s so far")

    def end(self) -> None:
        self._ended = True
        self._news.set()


@contextmanager
def heartbeat(output: Printer, doing: str, *, every_s: float = EVERY_S) -> Iterator[Callable[[str], None]]:
    """What is being ``doing`` is told once it takes long. The function reports a further step at once: on stdout, with
    ``--json`` on stderr."""
    with output.progress() as progress:
        moves = output.on_terminal and not output.as_json
        if moves:
            progress.show(doing)
        again = progress.show if moves else output.complain
        pulse = Heartbeat(doing, progress.say, again, every_s=every_s)
        thread = threading.Thread(target=pulse.beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield pulse.report
        finally:
            pulse.end()
            thread.join()
