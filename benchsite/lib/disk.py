"""Failures of what keeps files: a full or read-only disk, and a default storage that cannot be asked.

Such a failure is no defect, and has a code and a remedy.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
READ_ONLY = frozenset({errno.EROFS})
_CHAIN = 10


@dataclass(frozen=True, slots=True)
class DiskTrouble:
    """A stable `code`, a person's `sentence`, and a private `detail` that may name paths."""

    code: str
    sentence: str
    detail: str


_SENTENCES = {
    "disk.full": "The disk is full. Free space where BENCHSITE_DATA and the temporary folder lie, then try again.",
    "disk.read_only": "The disk is read-only. Make the file system of BENCHSITE_DATA writable again, then try again.",
}


def disk_trouble(error: BaseException) -> DiskTrouble | None:
    """What the disk did, when `error` or anything that it came from says so; None for every other failure."""
    for cause in _causes(error):
        for code, numbers in (("disk.full", FULL), ("disk.read_only", READ_ONLY)):
            if numbers & _numbers(cause):
                return DiskTrouble(code, _SENTENCES[code], str(cause)[:500])
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, as far as one looks."""
    found: BaseException | None = error
    for _ in range(_CHAIN):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _numbers(error: BaseException) -> set[int]:
    if isinstance(error, shutil.Error):  # of a copied tree: one text for each file, and no number of its own
        return {number for number in FULL | READ_ONLY if f"[Errno {number}]" in str(error)}
    return {error.errno} if isinstance(error, OSError) and error.errno is not None else set()


class StorageOutage(OSError):
    """The storage cannot be asked, which says nothing of its files. Each user of it has a code and a sentence."""

    code: str
    sentence: str


@contextmanager
def asking_storage(outage: type[StorageOutage]) -> Iterator[None]:
    """Raise `outage` for every error but these: a file is not there, a disk is full, the storage cannot do that.

    Object stores raise errors of their own, which have no class of Python's in common.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        if isinstance(error, NotImplementedError) or disk_trouble(error) is not None:
            raise
        raise outage(f"{type(error).__name__}: {error}") from error
