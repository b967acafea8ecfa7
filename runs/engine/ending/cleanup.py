"""The cleanup of a run: fence, stop its processes, remove what it owns, verify, report."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from runs.containers import CleanupReport, Deadline, Engine, EngineError, reconcile, still_present
from runs.engine.ending.work_deletion import WorkRefused, delete_work
from runs.engine.trials.processes import StopReport, stop_group
from runs.ownership import LOCK_NAME, Journal, JournalBusy, JournalError
from runs.ownership.storage import make_lock

FENCE_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class FencedRun:
    """A fenced run and what became of its process groups, or `problems` that say why it is not fenced."""

    stopped: tuple[StopReport, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.problems and all(report.outcome.gone for report in self.stopped)


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """A cleanup as a result of its own: `state`, each resource and process, and stable codes of problems.

    Ids and details are private to operators. Never becomes `clean` while anything is unknown.
    """

    closed: FencedRun
    report: CleanupReport
    problems: tuple[str, ...] = ()

    @property
    def state(self) -> Literal["clean", "failed"]:
        return "clean" if self.closed.clean and self.report.clean and not self.problems else "failed"

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "resources": [asdict(resource) for resource in self.report.resources],
            "processes": [asdict(stopped) for stopped in self.closed.stopped],
            "problems": [*self.closed.problems, *self.report.problems, *self.problems],
        }


def clean_up(
    connect: Callable[[Deadline], Engine], journal: Journal, *, reason: str, data: Path | None = None
) -> CleanupResult:
    """Close the run and remove all that it owns; repeating it is harmless and runs nothing again.

    With `data`, the root of all runs' files, the run's disposable `work/` is deleted too. Whatever a journal,
    an engine or a file system refuses becomes a problem of the result.
    """
    return remove_all(connect, journal, closed=close(journal, reason), data=data)


def close(journal: Journal, reason: str) -> FencedRun:
    """Fence the journal, then stop every recorded process group.

    A frozen process may hold the journal's lock: after a second its verified group is stopped first. So it is when
    somebody removed the lock's file: a journal that is whole by itself still tells what is owned.
    """
    stopped: tuple[StopReport, ...] = ()
    try:
        if not (journal.directory / LOCK_NAME).exists(follow_symlinks=False):
            # A process that still runs may hold the removed file's lock, which keeps nobody out any more.
            stopped = _stop_processes(journal)
            make_lock(journal.directory / LOCK_NAME)
        try:
            journal.fence(reason, wait_s=FENCE_WAIT_S)
        except JournalBusy:
            stopped = stopped or _stop_processes(journal)
            journal.fence(reason)
        # Also those that recorded themselves while the fence was being written.
        later = _stop_processes(journal)
    except (JournalError, OSError) as error:
        # A fence that cannot be written, on a full disk for example, lets nothing go on running.
        with suppress(JournalError, OSError):
            stopped += _stop_processes(journal)
        return FencedRun(stopped, (_code(error),))
    return FencedRun(stopped + later[len(stopped) :])


def remove_all(
    connect: Callable[[Deadline], Engine], journal: Journal, *, closed: FencedRun, data: Path | None = None
) -> CleanupResult:
    """Remove what a closed run owns, verify that it is gone, and delete its `work/`.

    One deadline bounds every call of the engine, connecting and looking included; `connect` gets it.
    """
    report, problems = _remove_resources(connect, journal)
    # A process that still runs may still write there.
    if data is not None and closed.clean:
        try:
            delete_work(data, journal.directory.name)
        except (WorkRefused, OSError) as error:
            problems += (_code(error),)
    return CleanupResult(closed, report, problems)


def _stop_processes(journal: Journal) -> tuple[StopReport, ...]:
    document = journal.read()
    return tuple(stop_group(process.identity, owner=document.owner) for process in document.processes)


def _remove_resources(connect: Callable[[Deadline], Engine], journal: Journal) -> tuple[CleanupReport, tuple[str, ...]]:
    report = CleanupReport(())
    try:
        # Without anything unsettled no engine is needed, so that a finished run recovers without one.
        if not all(resource.settled for resource in journal.read().resources):
            deadline = Deadline()
            api = connect(deadline)
            report = reconcile(api, journal, deadline=deadline)
            if report.clean and still_present(api, journal, deadline):
                return report, ("still_present",)
    except (JournalError, EngineError) as error:
        return report, (error.code,)
    return report, ()


def _code(error: Exception) -> str:
    return error.code if isinstance(error, JournalError | WorkRefused) else f"os_{type(error).__name__}"
