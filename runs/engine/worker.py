"""The worker of a host: it recovers first, then serves its queue one run at a time; TERM drains.

RQ forks a process per job. The database is the truth, so this worker survives a Redis that restarts or loses
everything: a run that is being carried out goes on, and jobs that vanished are put again by the timer.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone
from django_rq import get_connection
from redis.exceptions import RedisError
from rq import Queue
from rq import Worker as RqWorker
from rq.executions import Execution
from rq.job import Job

from benchsite.lib import embedded_redis, logs
from runs.engine.ending import recovery
from runs.models import Worker
from runs.ownership import process_identity
from runs.services import endpoint_testing, lost_hosts, queue, workers

log = logging.getLogger(__name__)

HEARTBEAT_EVERY_S = 10.0
RECOVER_EVERY_S = 30.0
LOOK_AT_REDIS_EVERY_S = 10  # while a run is carried out
# One wait for a job takes 15 s less than this, and Redis may then stay silent for 10 s more.
WORKER_TTL_S = 420
_REDIS_PAUSE_S = 1.0  # between two tries to reach Redis; doubled from try to try
_LONGEST_REDIS_PAUSE_S = 15.0


class AlreadyServed(Exception):
    """Another process of this host serves the same worker name."""

    code = "worker.already_running"
    sentence = "A worker of this name is running on this host already; stop it first."


class QueueUnreachable(Exception):
    """A burst cannot know whether its queue is empty."""

    code = "worker.no_queue"
    sentence = (
        "Redis could not be reached, so what waits in the queue is not known. Start it, or correct REDIS_URL, "
        "and run the command again."
    )


class HostWorker(RqWorker):
    """RQ's worker with three differences: quiet forks, patience with Redis, and a look at every lost run."""

    draining = False
    timer_locks: tuple[threading.Lock, ...] = ()

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """TERM or Ctrl-C: finish the present run, then stop. A second one, a second later, interrupts it."""
        self.draining = True
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Fork while no timer uses a connection: none may be shared by two processes."""
        with ExitStack() as quiet:
            for lock in self.timer_locks:
                quiet.enter_context(lock)
            connections.close_all()
            super().fork_work_horse(job, queue)

    def monitor_work_horse(self, job: Job, queue: Queue, execution: Execution) -> None:
        """Wait for the forked process, whatever happens to Redis meanwhile."""
        while True:
            try:
                super().monitor_work_horse(job, queue, execution)
                return
            except RedisError:
                log.warning("Redis cannot be reached; the run goes on", exc_info=True)
                with suppress(Exception):  # an embedded server that does not start now may start a second later
                    embedded_redis.ensure()
                time.sleep(_REDIS_PAUSE_S)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Carry out one job; a run whose process was lost is concluded before anything else starts."""
        with logs.about(job=job.id, run=job.id.rpartition("-")[2]):  # the forked process inherits them
            try:
                super().execute_job(job, queue)
            finally:
                if job.id.startswith("run-"):
                    recovery.recover_run(job.id.removeprefix("run-"))
                else:
                    endpoint_testing.close_lost(settings.WORKER_NAME)  # whoever carried the job out has ended
                connections.close_all()


class Timer(threading.Thread):
    """Calls ``tick`` every ``every_s`` seconds, holding its lock, with database connections of its own."""

    def __init__(self, name: str, every_s: float, tick: Callable[[], Any]) -> None:
        super().__init__(name=name, daemon=True)
        self.every_s, self.tick = every_s, tick
        self.lock, self.ended = threading.Lock(), threading.Event()

    def run(self) -> None:
        while not self.ended.wait(self.every_s):
            with self.lock:
                try:
                    self.tick()
                except Exception:  # the next tick may well succeed; a timer that died would be noticed by nobody
                    log.exception("the timer %s failed", self.name)
                finally:
                    connections.close_all()


def serve(name: str, *, burst: bool = False, report: bool = True) -> None:
    """Serve the queue of worker ``name`` on this host until TERM, or with ``burst`` until it is empty.

    A service waits for a Redis that is away, as long as it takes; a burst does not. Raises ``AlreadyServed`` and, of
    a burst, ``QueueUnreachable``.
    """
    with _only_one(name):
        embedded_redis.ensure()
        register(name)
        if report:
            report_capabilities(name)
        endpoint_testing.close_lost(name)
        lost_hosts.back_in_service(name)
        recovery.recover(name, every_folder=True)
        _serve(name, burst=burst)


def register(name: str) -> Worker:
    """Make or renew the worker's row: host, process identity, heartbeat."""
    identity = process_identity(os.getpid())
    values: dict[str, Any] = {"host": settings.WORKER_HOST, "heartbeat_at": timezone.now(), "draining": False}
    if identity is not None:
        values |= {"pid": identity.pid, "start_ticks": identity.start_ticks, "boot_id": identity.boot_id}
    return Worker.objects.update_or_create(name=name, defaults=values)[0]


def report_capabilities(name: str) -> Worker:
    """Prove what this host can enforce and store the report that previews show and specs are bound to.

    An engine that does not answer, or missing assets, make a report that says so.
    """
    from runs.containers import connect
    from runs.engine.assets import AssetError, load_assets
    from runs.engine.host.maintenance import maintenance
    from runs.engine.preflight.capabilities import capability_digest
    from runs.engine.preflight.run_preflight import worker_report

    try:
        assets = load_assets(settings.ASSETS)
    except AssetError as error:
        log.warning("%s", error.sentence)
        assets = None
    directory = settings.DATA / "maintenance" / name
    with maintenance(directory, name, partial(connect, settings.DOCKER_TIMEOUT_S)) as journal:
        found = worker_report(name, journal, assets)
    digest = capability_digest(found)
    return workers.record_report(name, found, capability_sha256=digest, host=settings.WORKER_HOST)


def _serve(name: str, *, burst: bool) -> None:
    current: list[HostWorker] = []
    timers = [
        Timer("heartbeat", HEARTBEAT_EVERY_S, lambda: _heartbeat(name, current)),
        Timer("recovery", RECOVER_EVERY_S, lambda: _recover(name, current)),
    ]
    quiet = tuple(timer.lock for timer in timers)
    for timer in timers:
        timer.start()
    pause_s = _REDIS_PAUSE_S
    try:
        while not _work(name, burst, quiet, current):
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_REDIS_PAUSE_S)
            embedded_redis.ensure()
    finally:
        for timer in timers:
            timer.ended.set()
        with suppress(DatabaseError):
            Worker.objects.filter(name=name).update(pid=None, draining=False, heartbeat_at=timezone.now())
        connections.close_all()


def _work(name: str, burst: bool, quiet: tuple[threading.Lock, ...], current: list[HostWorker]) -> bool:
    """Work until told to stop, or with ``burst`` until the queue is empty. False when it has to be begun again: Redis
    made RQ give up. Raises ``QueueUnreachable``.
    """
    try:
        connection = get_connection("default")
        own = Queue(queue.queue_name(name), connection=connection)
        worker = HostWorker(
            [own], connection=connection, worker_ttl=WORKER_TTL_S, job_monitoring_interval=LOOK_AT_REDIS_EVERY_S
        )
        worker.timer_locks = quiet
        current[:] = [worker]
        worker.work(burst=burst, with_scheduler=False, logging_level=None)
        return worker.draining or (burst and own.is_empty())
    except RedisError as error:
        if burst:
            raise QueueUnreachable from error
        log.warning("Redis cannot be reached (%s); trying again", error)
        return False


def _heartbeat(name: str, current: list[HostWorker]) -> None:
    draining = bool(current and current[0].draining)
    Worker.objects.filter(name=name).update(heartbeat_at=timezone.now(), draining=draining)


def _recover(name: str, current: list[HostWorker]) -> None:
    running = current[0].get_current_job_id() if current else None
    with suppress(recovery.RecoveryBusy):
        recovery.recover(name, running=running, wait=False)


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Hold the host's lock for this worker name. A record lock: a forked run does not inherit it."""
    folder = settings.DATA / "maintenance"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyServed from None
        yield
