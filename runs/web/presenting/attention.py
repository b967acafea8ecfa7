"""What needs somebody? The notes on the overview, each with who can do what about it. Pure over rows."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.text import capfirst

from benchsite.lib import words
from runs.services.worker_condition import condition
from runs.web.presenting import banner

if TYPE_CHECKING:
    from runs.models import Run, TaskBundle, Worker


@dataclass(frozen=True, slots=True)
class Note:
    """One thing. ``tone`` is ``attention`` or empty, ``link`` the word on its button."""

    icon: str
    tone: str
    text: str
    detail: str
    href: str
    link: str


def left_behind(run: "Run", left: int) -> Note:
    what = words.counted(left, "resource") if left else "something"
    return Note(
        "attention",
        "attention",
        f"Run {run.key[:8]} left {what} on {run.worker.name}",
        f"{words.counted(run.cleanup_attempts, 'attempt')} so far; a retry runs nothing again",
        reverse("run", args=[run.key]) + "#owned",
        "Cleanup",
    )


def more_left_behind(count: int) -> Note:
    return Note(
        "attention",
        "attention",
        f"{words.counted(count, 'more run')} left something behind",
        "Each names what is left, and offers a retry",
        reverse("runs") + "?cleanup=failed",
        "Runs",
    )


def quarantined(run: "Run") -> Note:
    return Note(
        "lock",
        "attention",
        f"Evidence of run {run.key[:8]} is quarantined",
        "A known secret was still in it after scrubbing; nothing of that is kept or shown. Replace the credential",
        reverse("run", args=[run.key]) + "#evidence",
        "Evidence",
    )


def silent(run: "Run", now: datetime) -> Note:
    return Note(
        "attention",
        "attention",
        f"Run {run.key[:8]} has not been heard of for {words.ago(run.heartbeat_at, now).removesuffix(' ago')}",
        f"Its worker {run.worker.name} looks after it when it is back",
        reverse("run", args=[run.key]),
        "Run",
    )


def unseen(worker: "Worker", now: datetime, waiting: int) -> Note:
    waits = f"{words.counted(waiting, 'run')} waiting for it" if waiting else "no run waits for it"
    found = condition(worker, now)
    return Note(
        "workers",
        "attention" if waiting else "",
        f"{worker.name}: {words.lowered(found.word)}",
        f"{capfirst(waits)}; start it there with manage.py worker",
        reverse("worker", args=[worker.name]),
        "Worker",
    )


def to_review(bundle: "TaskBundle") -> Note:
    return Note(
        "eye",
        "",
        f"Bundle {bundle.name} revision {bundle.revision} waits for a review",
        f"Certified {bundle.certified_at:%-d %b %Y}; only a reviewed revision can run" if bundle.certified_at else "",
        reverse("bundle", args=[bundle.name, bundle.revision]),
        "Review",
    )


def is_silent(run: "Run", now: datetime) -> bool:
    return banner.is_stale(run, now)
