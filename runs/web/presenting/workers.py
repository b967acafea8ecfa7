"""A worker's row and page, from its capability report, and the effects of declaring its host lost. Pure over rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils.text import capfirst

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.visible_text import visible
from runs.services.workers import condition
from runs.web.presenting import status_marks
from runs.web.presenting.banner import counts_of

if TYPE_CHECKING:
    from runs.models import Run, Worker

_A_MINUTE = timedelta(minutes=1)
HARNESS_UID = "Harness with a user of its own"
SANDBOX = "Harness in a sandbox"
LIMIT_WORDS = {
    "cpu": "CPU",
    "memory": "Memory without extra swap",
    "pids": "Processes",
    "nofile": "Open files",
    "storage": "Writable storage",
    "read_only_root": "Read-only root",
    "capabilities": "Capabilities dropped",
    "no_new_privileges": "No new privileges",
    "seccomp": "System call filter",
    "core": "No core files",
    "no_network": "No network",
}


@dataclass(frozen=True, slots=True)
class LimitRow:
    word: str
    enforced: bool
    mechanism: str
    detail: str


def worker_row(worker: "Worker", now: datetime) -> dict[str, Any]:
    report = stored_object(worker.report)
    limits = _limits(report)
    missing = sum(not limit.enforced for limit in limits)
    engine = report.get("engine") or {}
    # To the minute: a list that keeps itself up to date would otherwise change with every heartbeat.
    just_now = worker.heartbeat_at is not None and now - worker.heartbeat_at < _A_MINUTE
    return {
        "name": worker.name,
        "mark": status_marks.Mark(*condition(worker, now)),
        "engine": str(engine.get("version") or ""),
        "enforces": _enforces(limits, missing),
        "missing": missing,
        "seen": "under 1 min ago" if just_now else words.ago(worker.heartbeat_at, now),
        "waiting": getattr(worker, "waiting", 0),
    }


def worker_page(worker: "Worker") -> dict[str, Any]:
    report = stored_object(worker.report)
    limits = _limits(report)
    problem = report.get("engine_problem") or {}
    engine = report.get("engine") or {}
    memory = engine.get("memory_bytes")
    rows = [
        ("Host", report.get("host")),
        ("Platform", report.get("platform")),
        ("Kernel", engine.get("kernel")),
        ("Engine", engine.get("version")),
        (
            "Control groups",
            engine.get("cgroup_version") and f"version {engine['cgroup_version']}, {engine.get('cgroup_driver')}",
        ),
        ("Storage driver", engine.get("storage_driver")),
        ("CPUs", engine.get("cpus")),
        ("Memory", words.size(memory) if isinstance(memory, int) else None),
    ]
    return {
        "reported": bool(report),
        "facts": [(word, str(value)) for word, value in rows if value not in (None, "")],
        "limits": limits,
        "problem": str(problem.get("sentence", "")),
        "missing": sum(not limit.enforced for limit in limits),
    }


def _limits(report: dict[str, Any]) -> list[LimitRow]:
    """Every limit of the report, and the network of Harbor's own process: a preview asks about both alike."""
    found = report.get("limits") or []
    rows = [
        LimitRow(
            word=LIMIT_WORDS.get(str(limit.get("name")), str(limit.get("name"))),
            enforced=limit.get("enforced") is True,
            mechanism=str(limit.get("mechanism", "")),
            detail=visible(str(limit.get("detail", ""))),
        )
        for limit in found
        if isinstance(limit, dict)
    ]
    sandbox = report.get("sandbox")
    if rows and isinstance(sandbox, dict):
        made, own = sandbox.get("made") is True, sandbox.get("own_uid") is True
        rows.append(
            LimitRow(SANDBOX, made, "Harbor's own process reaches nothing of the host", str(sandbox.get("detail")))
        )
        said = "has a user of its own" if own else "keeps the worker's user"
        rows.append(LimitRow(HARNESS_UID, own, f"Harbor's own process {said}", ""))
    return rows


def _enforces(limits: list[LimitRow], missing: int) -> str:
    if not limits:
        return ""
    return f"{words.counted(missing, 'limit')} not enforced" if missing else "every limit enforced"


def ending(run: "Run") -> dict[str, Any]:
    """One run that would end. ``run.left`` counts what its record has not seen removed."""
    counts = counts_of(run)
    return {
        "run": run,
        "mark": status_marks.of_run(run),
        "becomes": status_marks.RESULTS["cancelled" if run.cancel_requested_at else "error"],
        "keeps": f"{words.counted(counts.evaluated, 'graded trial')} of {counts.requested} kept",
    }


def effects(runs: "Sequence[Run]", waiting: int) -> dict[str, list[str]]:
    """What is done and what stays unknown, in sentences; ``waiting`` queued runs are bound to the worker."""
    done = [
        f"{capfirst(words.counted(len(runs), 'run'))} {'ends' if len(runs) == 1 else 'end'} now, "
        "and every trial that was not graded becomes an error (worker runtime)"
        if runs
        else "No run is being executed there, so none ends",
        "Previews of this worker are refused until it is back",
    ]
    if waiting:
        done.append(f"{capfirst(words.counted(waiting, 'queued run'))} keep waiting for it and can be cancelled")
    left = sum(run.left for run in runs)  # type: ignore[attr-defined]
    return {"done": done, "unknown": _unknown(left) if runs else []}


def _unknown(left: int) -> list[str]:
    counted = words.counted(left, "container or network", "containers and networks")
    first = (
        f"Whether {counted} of these runs still exist: they cannot be removed from here"
        if left
        else "Whether anything of these runs still exists there: it cannot be looked for from here"
    )
    return [
        first,
        "Whether their processes still run, if the host is only cut off: their reports are no longer accepted",
        "Evidence that exists only on that host: it is stored when the worker starts again, which also cleans up",
    ]
