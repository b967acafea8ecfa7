"""Recovery of what a crash left on this host: runs whose process is gone, cleanups that failed, lost jobs.

Nothing is ever executed again: a lost run is concluded from its own folder. Runs of
other hosts are left alone. One recovery runs at a time on a host.
"""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from runs.containers import connect
from runs.engine.ending.judge import the_judge
from runs.engine.host.folder import RunFolder
from runs.engine.host.maintenance import tidy
from runs.engine.host.same_engine import connect_same
from runs.models import ACTIVE_STATES, OVER, TERMINAL_STATES, Cleanup, Run
from runs.ownership import Journal, JournalError
from runs.ownership.processes import DEAD_STATES, boot_id, process_stat
from runs.ownership.scratch import sweep
from runs.services import endpoint_testing, lifecycle, queue, transitions
from runs.services.lost_hosts import LOST_CODE

log = logging.getLogger(__name__)

# Longer than several ticks of the recovery timer, and than the journal waits before it believes an absence.
LOOK_AGAIN_FOR_S = 600


@dataclass
class RecoveryReport:
    """What one pass did: ids of runs (32 hex characters). ``problems`` are private sentences for operators."""

    interrupted: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    not_clean: list[str] = field(default_factory=list)
    enqueued: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing is left to recover."""
        return not self.not_clean and not self.problems

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class RecoveryBusy(Exception):
    """Another process of this host recovers right now."""

    code = "recovery.busy"
    sentence = "Another process of this host is recovering right now; nothing was done."


def recover(
    worker: str, *, running: str | None = None, wait: bool = True, every_folder: bool = False
) -> RecoveryReport:
    """One bounded pass over what this host left behind, for worker ``worker``.

    ``running`` is the id of the job that the worker executes right now. ``every_folder`` also reads the
    journal of every run's folder, for rows that a restored backup does not know. Raises ``RecoveryBusy``
    when another pass holds the host's lock and ``wait`` is false.
    """
    report = RecoveryReport()
    with _one_at_a_time(wait=wait):
        for run in _active_here():
            _recover_run(run, report)
        for run in _ended_here().exclude(cleanup__in=OVER):
            _clean_again(run, report)
        since = timezone.now() - timedelta(seconds=LOOK_AGAIN_FOR_S)
        lately = list(_ended_here().filter(cleanup=Cleanup.CLEAN, ended_at__gte=since))
        for run in lately:
            _look_again(run, report)
        if every_folder:
            _reconcile_folders(report, looked_at={run.key for run in lately})
        # Each pass: a command that was killed beside a worker that lives must not leave its container until a restart.
        report.problems += tidy(settings.DATA / "maintenance", partial(connect, settings.DOCKER_TIMEOUT_S))
        try:
            sweep(settings.DATA)
        except OSError as error:
            report.problems.append(
                f"what killed commands left in the scratch folder could not be removed: {type(error).__name__}"
            )
    try:
        report.enqueued = [key.hex for key in queue.put_missing(worker, running=running)]
        endpoint_testing.put_missing(worker, running=running)
    except RedisError as error:
        report.problems.append(f"the queue cannot be reached: {type(error).__name__}")
    return report


def recover_run(run_id: str) -> bool:
    """Conclude one run whose process has just been lost. False when it ended by itself or is still carried out."""
    report = RecoveryReport()
    with _one_at_a_time(wait=True):
        for run in _active_here().filter(pk=run_id):
            _recover_run(run, report)
    return bool(report.interrupted)


def retry_cleanup(run_id: str) -> Cleanup:
    """Remove what a run that has ended still owns, and record how that went; never touches its verdict.

    The evidence of a run that was ended while its host was lost is kept first. Raises ``NoSuchRun``.
    """
    run = Run.objects.filter(pk=run_id, state__in=TERMINAL_STATES).first()
    if run is None:
        raise transitions.NoSuchRun(run_id)
    if run.cleanup in OVER:
        return Cleanup(run.cleanup)
    folder = RunFolder.of(settings.DATA, run.key)
    if (folder.path / "journal.json").exists():
        cleanup = _reconcile(run, folder)
    else:
        # Without a journal only a run that is known to have created nothing is clean.
        cleanup = Cleanup.FAILED if run.resources.exists() else Cleanup.CLEAN
    lifecycle.cleanup_changed(run.pk, cleanup=cleanup)
    return cleanup


def lease_is_alive(run: Run) -> bool:
    """Whether exactly the process that claimed ``run`` still lives: pid, start ticks and boot id all match."""
    if run.lease_pid is None or run.lease_boot_id != boot_id():
        return False
    stat = process_stat(run.lease_pid)
    return stat is not None and stat.start_ticks == run.lease_start_ticks and stat.state not in DEAD_STATES


def _active_here() -> Any:
    return Run.objects.filter(state__in=ACTIVE_STATES, lease_host=settings.WORKER_HOST).order_by("claimed_at")


def _ended_here() -> Any:
    return Run.objects.filter(state__in=TERMINAL_STATES, lease_host=settings.WORKER_HOST).order_by("ended_at")


def _recover_run(run: Run, report: RecoveryReport) -> None:
    if lease_is_alive(run):
        report.alive.append(run.key)
        return
    log.warning("run %s: its process %s is gone; concluding it as interrupted", run.key, run.lease_pid)
    try:
        _conclude(run)
        report.interrupted.append(run.key)
    except Exception as error:  # one broken run must not keep the others from being recovered
        log.exception("run %s could not be concluded", run.key)
        report.problems.append(f"run {run.key} could not be concluded: {type(error).__name__}")


def _conclude(run: Run) -> None:
    from runs.engine.ending.conclusion import conclude  # the whole engine, which a timer's tick seldom needs

    conclude(run.key, interrupted=True)


def _clean_again(run: Run, report: RecoveryReport) -> None:
    try:
        cleanup = retry_cleanup(run.key)
    except Exception as error:  # see above
        log.exception("run %s could not be cleaned up", run.key)
        report.problems.append(f"run {run.key} could not be cleaned up: {type(error).__name__}")
        return
    (report.cleaned if cleanup is Cleanup.CLEAN else report.not_clean).append(run.key)


def _look_again(run: Run, report: RecoveryReport) -> None:
    """Confirm that what was never found is absent: an engine goes on creating after its client died (design 4)."""
    folder = RunFolder.of(settings.DATA, run.key)
    if not (folder.path / "journal.json").exists() or _is_settled(Journal(folder.path), report):
        return
    if _reconcile(run, folder) is not Cleanup.CLEAN:
        report.not_clean.append(run.key)


def _reconcile_folders(report: RecoveryReport, *, looked_at: set[str]) -> None:
    """Remove what a journal still names although its run is not active; a run without a row included."""
    from runs.engine.ending.cleanup import clean_up

    active = {key.hex for key in Run.objects.filter(state__in=ACTIVE_STATES).values_list("pk", flat=True)}
    for path in sorted((settings.DATA / "runs").glob("*/journal.json")):
        key, journal = path.parent.name, Journal(path.parent)
        if key in active or key in looked_at or key in report.not_clean or _is_settled(journal, report):
            continue
        engine = partial(connect_same, journal.directory, settings.DOCKER_TIMEOUT_S)
        result = clean_up(engine, journal, reason="recovery")
        (report.cleaned if result.state == "clean" else report.not_clean).append(key)


def _is_settled(journal: Journal, report: RecoveryReport) -> bool:
    try:
        return all(resource.settled for resource in journal.read().resources)
    except JournalError as error:
        report.problems.append(f"the journal of {journal.directory.name} cannot be read: {error.code}")
        return True


def _reconcile(run: Run, folder: RunFolder) -> Cleanup:
    from runs.engine.ending.cleanup import close
    from runs.engine.ending.conclusion import clean_and_mirror

    journal = Journal(folder.path)
    try:
        closed = close(journal, "cleanup")
        if run.failure_code == LOST_CODE:
            _keep_evidence(run, folder)
        cleanup = Cleanup(clean_and_mirror(run.key, journal, closed).state)
        # The cleanup wrote into the journal, which is part of what was stated; its own result does not wait for that.
        try:
            the_judge().cleaned(run, folder.path)
        except OSError:
            log.exception("run %s: what its cleanup changed could not be stated again", run.key)
        return cleanup
    except JournalError:
        log.exception("run %s: its journal cannot be used", run.key)
        return Cleanup.FAILED


def _keep_evidence(run: Run, folder: RunFolder) -> None:
    """Register what a run left that was ended while its host was lost, scrubbed of what is known again."""
    from runs.engine.ending.conclusion import note_unresolved, secrets_of_a_lost_run

    secrets = secrets_of_a_lost_run(run.key)
    try:
        note_unresolved(run.key, folder, secrets)
        the_judge().keep(run, folder.path, secrets=secrets.values)
    except OSError:
        log.exception("run %s: its evidence could not be kept", run.key)


@contextmanager
def _one_at_a_time(*, wait: bool) -> Iterator[None]:
    settings.DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (settings.DATA / "recovery.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise RecoveryBusy from None
        yield
