"""Whenever an attendant is killed, its run's cleanup proves that the sandbox is gone, whatever runs inside."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runs.engine.ending.cleanup import close
from runs.engine.trials.processes import Stopped, stop_group
from runs.engine.trials.trial_process import ATTENDANT
from runs.ownership import Journal, ProcessIdentity, process_identity
from runs.ownership.processes import PROC, group_members
from tests.engine.site import wait_until

pytestmark = pytest.mark.harbor_compatibility

UIDS = range(71_000, 71_004)
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
    """An environment whose `runs.harness.launch` never ends."""
    path = tmp_path_factory.mktemp("harness") / "environment"
    subprocess.run([sys._base_executable, "-I", "-m", "venv", "--without-pip", "--symlinks", path], check=True)
    (packages,) = path.glob("lib/python3.*/site-packages")
    (packages / "runs/harness").mkdir(parents=True)
    (packages / "runs/harness/launch.py").write_text(HARBOR)
    for parent in (path, *path.parents):
        if parent != Path("/tmp") and parent.is_relative_to("/tmp"):
            parent.chmod(0o755)
    return path


class Running:
    """A real attendant of a real journal, and everything of its sandbox as the kernel shows it."""

    def __init__(self, directory: Path, harness: Path) -> None:
        self.journal = Journal.create(directory, run_id="0" * 32)
        self.owner = self.journal.read().owner
        (directory / "trials/1").mkdir(parents=True)
        self.log = directory / "log"
        command = [sys.executable, "-I", "-B", ATTENDANT, "--run-directory", directory, "--trial", "1"]
        command += ["--harness", harness, "--seconds", "60", "--uids", UIDS[0], UIDS[-1]]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.PIPE, stdout=output, stderr=output,
                env={"PATH": os.environ["PATH"], "BENCHSITE_OWNER": self.owner}, start_new_session=True,
            )  # fmt: skip

    def recorded(self) -> int:
        return len(self.journal.read().processes)

    def launcher(self) -> int:
        """The process that launches the sandbox: the one that is not the attendant."""
        pids = [each.identity.pid for each in self.journal.read().processes]
        return next(pid for pid in pids if pid != self.process.pid)

    def left(self) -> list[int]:
        """Every living process of the owner or of one of the sandboxes' users."""
        return [
            int(place.name)
            for place in PROC.glob("[0-9]*")
            if int(place.name) != self.process.pid and self._is_of_it(place)
        ]

    def _is_of_it(self, place: Path) -> bool:
        try:
            status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
            marked = f"BENCHSITE_OWNER={self.owner}".encode() in (place / "environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return status["State"][0] not in "ZX" and (marked or int(status["Uid"].split()[0]) in UIDS)

    def kill(self) -> None:
        self.process.kill()
        with self.process:
            pass


@pytest.fixture
def running(tmp_path: Path, harness: Path) -> Iterator[Running]:
    made = Running(tmp_path / "run", harness)
    yield made
    made.kill()
    for pid in made.left():
        os.kill(pid, signal.SIGKILL)


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


def test_a_launcher_that_is_never_told_to_begin_makes_no_sandbox(running: Running) -> None:
    """Frozen between its launch and its record, then killed: what it launched ends by itself."""
    wait_until(lambda: recorded_itself(running))
    with running.journal._locked():  # the next record waits here
        wait_until(lambda: any(pid != running.process.pid for pid in running.left()))
        running.kill()
        wait_until(lambda: running.left() == [])
    assert running.recorded() == 1 and not inside(running)


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
