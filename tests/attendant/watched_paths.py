"""Writes down every path that a process opens, lists, makes, renames or removes; and what a sandbox mounts."""

import os
import sys
from pathlib import Path
from typing import Any

from runs.ownership.processes import PROC

EVENTS = {
    "open",
    "os.listdir",
    "os.scandir",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.chmod",
    "os.truncate",
}
_OF_THE_KERNEL = {"stat", "status", "environ", "oom_score_adj"}
DEVICE_FILES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

type Mount = tuple[str, str, set[str]]


def watch_into(log: Path) -> None:
    """From now on this process and its forks write each path, absolute and as it was named, as a line of ``log``."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsencode(os.path.abspath(arguments[0]))  # noqa: PTH100 - links must stay as they are named
            os.write(descriptor, path.replace(b"\n", b"?") + b"\n")

    sys.addaudithook(watch)


def mounts(pid: int | str) -> list[Mount]:
    """(device, place, options) of each mount that a process sees."""
    lines = (PROC / str(pid) / "mountinfo").read_text().splitlines()
    return [(parts[2], parts[4], set(parts[5].split(","))) for parts in map(str.split, lines)]


def sandbox_mounts(uids: range, home: Path) -> list[Mount]:
    """What the sandbox of one of these users mounts that has its private folder at ``home``; empty while there is none.

    Its root is made read-only last, before Harbor's interpreter runs: until then it still sees what it was made from.
    """
    for place in PROC.glob("[0-9]*"):
        try:
            status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
            if int(status["Uid"].split()[0]) in uids and len(status["NSpid"].split()) > 1:
                seen = mounts(place.name)
                options = {at: options for _, at, options in seen}
                if str(home) in options and "ro" in options["/"]:
                    return seen
        except (OSError, KeyError):
            continue
    return []


def writable(seen: list[Mount]) -> set[tuple[str, str]]:
    """(device, place) of what may be written, device files aside."""
    return {(device, place) for device, place, options in seen if "rw" in options and place not in DEVICE_FILES}


def opened_on(devices: set[str], log: Path) -> tuple[set[str], list[str]]:
    """Every path of the log, and those that lie on one of the devices or lead to another process's files."""
    opened = set(log.read_text().splitlines())
    return opened, [path for path in opened if device_of(path) in devices or _is_of_a_process(path)]


def device_of(path: str) -> str:
    place = Path(path)
    while not place.exists():
        place = place.parent
    number = place.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _is_of_a_process(path: str) -> bool:
    """Whether a path leads to another process's files, as `/proc/<pid>/root` does; what the kernel says does not."""
    parts = Path(path).parts
    return len(parts) > 3 and parts[1] == "proc" and parts[2].isdecimal() and parts[3] not in _OF_THE_KERNEL
