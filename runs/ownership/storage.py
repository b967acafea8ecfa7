"""Atomic writes of small files, and a bounded lock."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

LOCK_POLL_S = 0.01


class LockBusy(Exception):
    """The lock was not free within the wait."""


@contextmanager
def flocked(path: Path, wait_s: float) -> Iterator[None]:
    """Hold an exclusive flock on an existing file or directory, opened for this use. Raises LockBusy, OSError.

    Closing the descriptor frees the lock, however its holder ends.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        _acquire(descriptor, time.monotonic() + wait_s)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, wait_s: float) -> Iterator[None]:
    """Hold the flock of a lock file that is never renamed or removed. Raises LockBusy, OSError.

    Whoever waits for it first stands in its directory's own flock, as in a turnstile: one that takes the lock
    again and again (a harness that creates) cannot keep out one that waits (the cancel).
    """
    deadline = time.monotonic() + wait_s
    with ExitStack() as held:
        with flocked(path.parent, wait_s):
            held.enter_context(flocked(path, deadline - time.monotonic()))
        yield


def _acquire(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockBusy from None
            time.sleep(LOCK_POLL_S)


def make_lock(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def read_bounded(path: Path, limit: int) -> bytes:
    """At most `limit` + 1 bytes of a regular file, so that a caller sees that it is too large."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read(limit + 1)


def replace_whole(path: Path, data: bytes) -> None:
    """Write `data` to a temporary file, sync it, rename it over `path`, and sync the directory."""
    temporary = path.with_name(f".{path.name}.new")  # of a name that no evidence has
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
