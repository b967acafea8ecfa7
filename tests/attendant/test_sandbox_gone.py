"""Whenever an attendant is killed, its run's cleanup proves that the sandbox is gone, whatever runs inside."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from runs.engine.ending.cleanup import close
from runs.engine.trials.processes import Stopped, stop_group
from runs.ownership import ProcessIdentity, process_identity
from runs.ownership.processes import group_members
from tests.attendant.running_attendant import Running, harness_of
from tests.engine.site import wait_until

pytestmark = pytest.mark.harbor_compatibility

# Nothing ends it: no signal, no closed socket, no end of whoever asked for it.
HARBOR = """
import json, os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
# Its first process is of the same user, and open to be read.
shown = {line.partition("=")[0] for line in open("/proc/1/environ").read().split("\\0") if line}
opened = []
for name in os.listdir("/proc/1/fd"):
    try:
        opened.append(os.readlink(f"/proc/1/fd/{name}"))
        open(f"/proc/1/fd/{name}").close()
    except OSError:
        opened.pop()
print("first", json.dumps([sorted(shown), sorted(name for name in opened if name.startswith("/"))]), flush=True)
print("inside", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return harness_of(tmp_path_factory.mktemp("harness") / "made", HARBOR)


@contextmanager
def started(directory: Path, harness: Path) -> Iterator[Running]:
    made = Running(directory, harness)
    try:
        yield made
    finally:
        made.kill()
        for pid in made.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def running(tmp_path: Path, harness: Path) -> Iterator[Running]:
    with started(tmp_path / "run", harness) as made:
        yield made


def at_once(running: Running) -> bool:
    return True


def recorded_itself(running: Running) -> bool:
    return running.recorded() >= 1


def recorded_its_launcher(running: Running) -> bool:
    return running.recorded() >= 2


def first_process(running: Running) -> bool:
    return running.recorded() >= 2 and len(group_members(_identity(running.launcher()))) >= 2


def inside(running: Running) -> bool:
    return b"inside" in running.log.read_bytes()


def _identity(pid: int) -> ProcessIdentity:
    identity = process_identity(pid)
    assert identity is not None
    return identity


@pytest.mark.parametrize("with_launcher", [False, True], ids=["attendant", "attendant and launcher"])
@pytest.mark.parametrize("point", [at_once, recorded_itself, recorded_its_launcher, first_process, inside])
def test_a_kill_at_any_point_leaves_nothing_once_the_run_is_closed(
    running: Running, point: Callable[[Running], bool], with_launcher: bool
) -> None:
    wait_until(lambda: point(running))
    running.kill()
    if with_launcher and running.recorded() >= 2:
        os.kill(running.launcher(), signal.SIGKILL)
    closed = close(running.journal, "recovery")
    assert closed.clean, closed
    # A launcher that was never recorded reads the end of its line, and ends before it becomes anything.
    wait_until(lambda: running.left() == [])
    assert running.recorded() <= 2


def test_what_runs_inside_cannot_leave_the_group_by_which_it_is_known(running: Running) -> None:
    wait_until(lambda: inside(running))
    members = group_members(_identity(running.launcher()))
    assert sorted(running.left()) == members and len(members) == 3


def test_its_first_process_shows_nothing_of_the_worker_and_opens_no_file_of_the_host(running: Running) -> None:
    wait_until(lambda: inside(running))
    (line,) = (line for line in running.log.read_text().splitlines() if line.startswith("first "))
    assert json.loads(line.removeprefix("first ")) == [["BENCHSITE_OWNER", "PATH", "PWD"], ["/dev/null"]]


def test_a_launcher_that_is_never_told_to_begin_makes_no_sandbox(tmp_path: Path, harness: Path) -> None:
    """Frozen between its launch and its record, then killed: what it launched ends by itself."""
    for number in range(20):  # the attendant may be quicker than the lock; then another one is frozen
        with started(tmp_path / f"run-{number}", harness) as running:
            while not recorded_itself(running):
                assert running.process.poll() is None
            with running.journal._locked():  # the next record waits here
                if running.recorded() > 1:
                    continue
                wait_until(lambda running=running: any(pid != running.process.pid for pid in running.left()))
                running.kill()
                wait_until(lambda running=running: running.left() == [])
            assert running.recorded() == 1 and not inside(running)
            return
    pytest.fail("each attendant had recorded its launcher before it could be frozen")


def test_a_stranger_with_the_launchers_number_is_left_alone(running: Running) -> None:
    wait_until(lambda: recorded_its_launcher(running))
    running.kill()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        identity = process_identity(stranger.pid)
        assert identity is not None
        older = replace(identity, start_ticks=identity.start_ticks - 1)
        assert stop_group(older, owner=running.owner).outcome is Stopped.UNVERIFIABLE
        assert stranger.poll() is None
        stranger.kill()
    assert close(running.journal, "recovery").clean
    wait_until(lambda: running.left() == [])
