"""Deletion of a run's files: its `work/`, and once its evidence has expired everything but its journal.

Every component below the data root is opened relative to the one before and never through a link, so that a
link put in the place of any of them makes the deletion fail instead of going elsewhere.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchsite.lib.problems import CodedError
from runs.ownership import JOURNAL_NAME, LOCK_NAME

RUN_ID = re.compile(r"[0-9a-f]{32}")
MAX_DEPTH = 200
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class WorkRefused(CodedError):
    """The folder is not what it should be, so nothing (more) was deleted."""

    def __init__(self, detail: str) -> None:
        sentence = "The working folder of this run is not a plain folder, so it was left alone."
        super().__init__("work_refused", sentence, detail)


def delete_work(data: Path, run_id: str) -> None:
    """Delete `<data>/runs/<run id>/work` whole; nothing there is fine. `data` itself is trusted.

    Links are removed, never followed; another file system mounted inside is refused. Raises WorkRefused and OSError.
    """
    with _run_folder(data, run_id) as run, suppress(FileNotFoundError):
        with _opened("work", run):  # refused when it is no folder; what else is none is removed
            pass
        _delete("work", run)


# The record of what a run owned outlives its evidence: a late container can still be told to be its own.
_KEPT_FOR_EVER = frozenset({JOURNAL_NAME, LOCK_NAME})


def holds_evidence(data: Path, run_id: str) -> bool:
    """Whether a run's folder is on this host and holds more than its journal. Raises WorkRefused."""
    try:
        with _run_folder(data, run_id) as run:
            return bool(_expiring(run))
    except FileNotFoundError:
        return False


def delete_evidence(data: Path, run_id: str) -> bool:
    """Delete everything in `<data>/runs/<run id>/` but its journal; whether there was anything.

    Raises WorkRefused and OSError as `delete_work` does.
    """
    try:
        with _run_folder(data, run_id) as run:
            names = _expiring(run)
            for name in names:
                _delete(name, run)
    except FileNotFoundError:
        return False
    return bool(names)


def _expiring(run: int) -> set[str]:
    with os.scandir(run) as entries:
        return {entry.name for entry in entries} - _KEPT_FOR_EVER


def _delete(name: str, parent: int, depth: int = 0) -> None:
    """What ``parent`` holds under this name: a folder with all that is in it, anything else by itself."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    with _opened(name, parent) as folder:
        if os.fstat(folder).st_dev != os.fstat(parent).st_dev:
            raise WorkRefused("another file system is mounted inside")
        if depth > MAX_DEPTH:
            raise WorkRefused("the folders are nested too deeply")
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        for inner in names:
            _delete(inner, folder, depth + 1)
    os.rmdir(name, dir_fd=parent)


@contextmanager
def _run_folder(data: Path, run_id: str) -> Iterator[int]:
    if not RUN_ID.fullmatch(run_id):
        raise WorkRefused("this is no run id")
    with _opened(data / "runs", None) as runs, _opened(run_id, runs) as run:
        yield run


@contextmanager
def _opened(name: Path | str, parent: int | None) -> Iterator[int]:
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError as error:
        raise WorkRefused(f"{Path(name).name} is a link or no folder") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
