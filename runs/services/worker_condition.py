"""What became of a worker's process, in the words that every page and command uses."""

from datetime import datetime
from typing import NamedTuple

from benchsite.lib import words
from runs.models import Worker


class Condition(NamedTuple):
    """The shape that pages draw (``attention``, ``unseen``, ``running``, ``held``), and the word."""

    kind: str
    word: str


def condition(worker: Worker, now: datetime) -> Condition:
    """What became of a worker's process, as every page and command says it.

    A clean stop clears the pid and leaves the time; a killed process leaves both, and falls silent.
    """
    if worker.lost_declared_at is not None:
        return Condition("attention", "Declared lost")
    if worker.heartbeat_at is None:
        return Condition("unseen", "Never started")
    if worker.pid is None:
        return Condition("unseen", f"Stopped {words.ago(worker.heartbeat_at, now)}")
    if not worker.alive:
        return Condition("attention", f"No heartbeat since {words.minute(worker.heartbeat_at, now)}")
    if worker.draining:
        return Condition("running", "Draining")
    return Condition("running" if getattr(worker, "active_runs", 0) else "held", "Serving")
