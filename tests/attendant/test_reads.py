"""Nothing that the attendant opens can be written by its sandbox, and no link is followed where it reads again."""

import os
import subprocess
from pathlib import Path

import pytest

from runs.ownership.processes import PROC
from tests.attendant import whole_trial
from tests.attendant.real_parts import Bench
from tests.attendant.test_whole_trial import SOLVE, wait_until
from tests.attendant.whole_trial import UIDS, run_trial

pytestmark = pytest.mark.harbor_compatibility
DEVICE_FILES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}


def mounts(pid: int | str) -> list[tuple[str, str, set[str]]]:
    """(device, place, options) of each mount that a process sees."""
    lines = (PROC / str(pid) / "mountinfo").read_text().splitlines()
    return [(parts[2], parts[4], set(parts[5].split(","))) for parts in map(str.split, lines)]


def sandboxed() -> list[int]:
    """The processes of the sandboxes' users that see another root than we do."""
    found = []
    for place in PROC.glob("[0-9]*"):
        try:
            status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
            if int(status["Uid"].split()[0]) in UIDS and len(status["NSpid"].split()) > 1:
                found.append(int(place.name))
        except (OSError, KeyError):
            continue
    return found


def device_of(path: str) -> str:
    place = Path(path)
    while not place.exists():
        place = place.parent
    number = place.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_what_the_attendant_opens_lies_on_no_file_system_that_its_sandbox_can_write(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_trial, "ATTENDANT", Path(__file__).with_name("watched_attendant.py"))
    seen: list[list[tuple[str, str, set[str]]]] = []

    def look(process: "subprocess.Popen[bytes]", trial: Path) -> None:
        wait_until(lambda: seen or [seen.append(mounts(pid)) for pid in sandboxed()])

    ended = run_trial(bench, [SOLVE], meanwhile=look)
    assert ended.exit_code == 0, ended.log
    (inside, *_) = seen
    writable = {(device, place) for device, place, options in inside if "rw" in options and place not in DEVICE_FILES}
    places = {place for _, place in writable}
    assert places == {"/proc", "/dev/pts", str(bench.directory)}
    devices = {device for device, _ in writable}
    assert devices.isdisjoint({device for device, _, _ in mounts("self")})

    opened = set((bench.directory / "opened.log").read_text().splitlines())
    assert {str(bench.trial / name) for name in ("environment.json", "config.json", "observed.jsonl")} <= opened
    assert str(bench.directory / "tasks/small/task.toml") in opened  # so it is watched
    assert [path for path in opened if device_of(path) in devices] == []
    # Nor through the one way to another's files, `/proc/<pid>/root` and its like.
    others = [Path(path).parts for path in opened if path.startswith("/proc/")]
    assert {parts[3] for parts in others if len(parts) > 3 and parts[2].isdecimal()} <= {"stat", "status"}
