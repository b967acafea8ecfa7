"""What an error of the default storage means: an outage, or something that it says of a file or of a disk."""

from collections.abc import Iterator
from contextlib import contextmanager

from benchsite.lib.disk import disk_trouble


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
