"""The notes below "Needs attention" on the overview, each with where it can be dealt with. Pure over rows."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.text import capfirst

from benchsite.lib import words
from runs.services.workers import condition

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


def cleanup_failed(run: "Run", left: int) -> Note:
    what = words.counted(left, "resource") if left else "resources"
    return Note(
        "attention",
        "attention",
        f"Run {run.short} left {what} on {run.worker.name}",
        f"{words.counted(run.cleanup_attempts, 'attempt')} so far; a retry runs no trial again",
        reverse("run", args=[run.key]) + "#owned",
        "Cleanup",
    )


def more_cleanups_failed(count: int) -> Note:
    return Note(
        "attention",
        "attention",
        f"{words.counted(count, 'more run')} with a failed cleanup",
        "Each page lists what is left and offers a retry",
        reverse("runs") + "?cleanup=failed",
        "Runs",
    )


def quarantined(run: "Run") -> Note:
    return Note(
        "lock",
        "attention",
        f"Evidence of run {run.short} is quarantined",
        "A known secret was still in it after scrubbing; that is neither kept nor shown. Replace the credential",
        reverse("run", args=[run.key]) + "#evidence",
        "Evidence",
    )


def run_silent(run: "Run", now: datetime) -> Note:
    return Note(
        "attention",
        "attention",
        f"No heartbeat from run {run.short} for {words.ago(run.heartbeat_at, now).removesuffix(' ago')}",
        f"Worker {run.worker.name} recovers it when it is back",
        reverse("run", args=[run.key]),
        "Run",
    )


def worker_stopped(worker: "Worker", now: datetime, waiting: int) -> Note:
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


def bundle_to_review(bundle: "TaskBundle") -> Note:
    return Note(
        "eye",
        "",
        f"Bundle {bundle.name} revision {bundle.revision} waits for a review",
        f"Certified {bundle.certified_at:%-d %b %Y}; only a reviewed revision can run" if bundle.certified_at else "",
        reverse("bundle", args=[bundle.name, bundle.revision]),
        "Review",
    )
