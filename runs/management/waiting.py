"""Waiting for long work: repeated status lines, Ctrl-C, and following a run to its end."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from django.contrib.auth.models import User

from benchsite.lib.database import retry_database
from runs.management.printing import Printer, Progress
from runs.management.run_text import nonzero_counts, state_line, trial_line
from runs.models import Run
from runs.services import lifecycle, transitions

EVERY_S = 10.0


class Heartbeat:
    """``report`` prints a line that stays. While no other one comes, the last one is repeated with its age."""

    def __init__(
        self, first: str, line: Callable[[str], None], repeat: Callable[[str], None], *, every_s: float
    ) -> None:
        self._last, self._since, self._ended = first, time.monotonic(), False
        self._line, self._repeat, self._every_s = line, repeat, every_s
        self._reported = threading.Event()

    def report(self, text: str) -> None:
        self._last, self._since = text, time.monotonic()
        self._line(text)
        self._reported.set()  # the next ten seconds begin now

    def beat(self) -> None:
        """Until ``end``; in a thread of its own."""
        while not self._ended:
            if self._reported.wait(self._every_s):
                self._reported.clear()
            else:
                self._repeat(f"{self._last}, {time.monotonic() - self._since:.0f} s so far")

    def end(self) -> None:
        self._ended = True
        self._reported.set()


@contextmanager
def heartbeat(output: Printer, doing: str, *, every_s: float = EVERY_S) -> Iterator[Callable[[str], None]]:
    """Print every ten seconds what is being done (``doing``) and for how long, so that neither a person nor a CI system
    that ends silent jobs takes it for dead: a terminal's last line changes, elsewhere lines go to stderr.

    Yields a function that reports a further step at once: on stdout, with ``--json`` on stderr.
    """
    with output.progress() as progress:
        terminal = output.on_terminal and not output.as_json
        if terminal:
            progress.status(doing)
        pulse = Heartbeat(doing, progress.line, progress.status if terminal else output.warn, every_s=every_s)
        thread = threading.Thread(target=pulse.beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield pulse.report
        finally:
            pulse.end()
            thread.join()


# CI systems end a job with one or the other.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Receives signals. The first one only sets a flag, so that it never breaks off what is being done."""

    def __init__(self) -> None:
        self._first = threading.Event()

    @property
    def received(self) -> bool:
        """Whether a signal came."""
        return self._first.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the first signal. Later signals raise KeyboardInterrupt wherever they come."""
        if not self.received:
            self._first.wait(seconds)
        else:
            threading.Event().wait(seconds)

    def receive(self, signum: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.received:
            raise KeyboardInterrupt
        self._first.set()


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


POLL_S = 0.5


class StoppedWaiting(KeyboardInterrupt):
    """Somebody would not wait any longer. ``sentence`` says what becomes of the run."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


def follow(run: Run, *, user: User, progress: Progress, interrupts: Interrupts) -> Run:
    """Wait until ``run`` has ended, with a line for each change and its counts as the status.

    The first interrupt cancels the run in the name of ``user`` and waits on; the second one raises StoppedWaiting.
    """
    rows = Run.objects.select_related("profile", "bundle", "endpoint", "worker").prefetch_related("trials")
    printed: set[str] = set()
    cancelling = False
    try:
        while True:
            run = retry_database(partial(rows.get, pk=run.pk))
            for line in _change_lines(run):
                if line not in printed:
                    progress.line(line)
                    printed.add(line)
            if run.terminal:
                return run
            progress.status(f"{run.short} {run.stage} · {nonzero_counts(run)}")
            if interrupts.received and not cancelling:
                cancelling = True
                progress.line(f"cancelling run {run.key}; interrupt again to stop waiting")
                lifecycle.request_cancel(run.pk, user=user)
            interrupts.wait(POLL_S)
    except KeyboardInterrupt:
        # Asks for the cancellation again, since the interrupt may have broken off the first request.
        ended = lifecycle.request_cancel(run.pk, user=user) is transitions.CancelOutcome.ENDED
        what = "has ended" if ended else "is being cancelled"
        raise StoppedWaiting(f"Stopped waiting. Run {run.key} {what}; see: manage.py status {run.short}") from None


def _change_lines(run: Run) -> list[str]:
    """A line for the state and each ended trial: the state first, of a run that has ended last."""
    trials = [trial_line(trial, run.count_requested) for trial in run.trials.all() if trial.bucket]
    return [*trials, state_line(run)] if run.terminal else [state_line(run), *trials]
