"""A user id of its own for each sandbox: nobody's on this host, and no other sandbox's as long as anything of it lives.

The kernel counts processes by user, and lets those of one user signal and trace each other.
"""

import fcntl
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runs.ownership.processes import PROC

# Of the whole host, so that workers with different data folders see each other's locks.
LOCKS = Path("/run/benchsite-sandbox-uids")
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))


class NoUid(Exception):
    """There is no user id to be had; the sentence says why, and what to do."""


@dataclass(frozen=True, slots=True)
class OwnUid:
    """``number`` is user and group at once; ``lock`` the descriptor that keeps others from it while it is open."""

    number: int
    lock: int

    def close(self) -> None:
        os.close(self.lock)


@contextmanager
def own_uid(uids: range) -> Iterator[OwnUid]:
    """The first id of `uids` that nobody has, locked until the end, and beyond by whoever inherited the lock.

    A lock ends with the last process that holds it, however that ends. Raises NoUid.
    """
    with closing(_take(uids)) as taken:
        yield taken


def _take(uids: range) -> OwnUid:
    _require_folder()
    named = f"{uids[0]}-{uids[-1]} (BENCHSITE_SANDBOX_UIDS)"
    mapped, subordinate = list(_mapped()), list(_subordinate())
    some_free = False
    for uid in uids:
        here = any(uid in each for each in mapped) and not any(uid in each for each in subordinate)
        if not here or _has_a_name(uid):
            continue
        some_free = True
        lock = os.open(LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Looked at under the lock: whoever had it before may have left something that is still ending.
            if uid not in _running():
                return OwnUid(uid, lock)
        os.close(lock)
    if some_free:
        raise NoUid(f"Every free user id of {named} is taken by a sandbox or a process. Name more of them.")
    raise NoUid(f"No user id of {named} is free: each has a name, is in a subordinate range, or is not mapped.")


def _require_folder() -> None:
    """The locks' folder, which only root may write. Raises NoUid."""
    try:
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        seen = LOCKS.lstat()
    except OSError as error:
        raise NoUid(f"The folder {LOCKS} cannot be made: {error.strerror}. Let the worker write below /run.") from error
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
        raise NoUid(f"The folder {LOCKS} is not the worker's own. Find out whose it is, and remove it.")


def _mapped() -> Iterator[range]:
    """The ids that exist in this user namespace."""
    for line in (PROC / "self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        yield range(first, first + count)


def _subordinate() -> Iterator[range]:
    """What is given to users for namespaces of their own."""
    for path in _SUBORDINATE:
        for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
            with suppress(ValueError):
                _, first, count = line.split(":")
                yield range(int(first), int(first) + int(count))


def _has_a_name(uid: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look(uid)
            return True
    return False


def _running() -> set[int]:
    """Every user id, of any kind, of every process. One that has ended, and waits for its parent to ask, has none."""
    found: set[int] = set()
    for place in PROC.glob("[0-9]*/status"):
        with suppress(OSError):
            lines = place.read_text(errors="replace").splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if status["State"][0] not in "ZX":
                found.update(map(int, status["Uid"].split()))
    return found
