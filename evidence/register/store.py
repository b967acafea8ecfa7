"""Stored evidence: files in the default storage, hashed while written and while read."""

import hashlib
import io
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import IO, Protocol

from django.core.files.base import File
from django.core.files.storage import default_storage

from benchsite.lib.disk import StorageOutage, asking_storage
from evidence.models import Artifact
from runs.models import Run

CHUNK = 1024 * 1024


class NotReadable(Exception):
    """The file was refused, quarantined or removed; `state` says which."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class HashDiffers(Exception):
    """What the storage holds is not what was registered. Nothing more of it is given out."""

    code = "evidence.hash_differs"
    sentence = "The stored file is not the one that was registered. It is not given out; look at the storage."


class StorageFails(StorageOutage):
    """The storage cannot be asked: an outage says nothing of the files, neither that they are lost nor changed."""

    code = "evidence.storage_fails"
    sentence = (
        "The evidence storage does not answer as it should. Nothing is known to be lost. See to it, then try again."
    )


asking = partial(asking_storage, StorageFails)


class Kept(Protocol):
    """A row of a file that the storage may hold: of a run's register, or of what was handed in with a job."""

    @property
    def path(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def stored(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def readable(self) -> bool: ...


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Hashing:
    """A readable that hashes and counts what passes through."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int = CHUNK, /) -> bytes:
        data = self._source.read(size)
        self._digest.update(data)
        self.size += len(data)
        return data

    def read_all(self) -> tuple[str, int]:
        """SHA-256 and size of the whole."""
        while self.read(CHUNK):
            pass
        return self.sha256, self.size

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def save(artifact: Artifact, content: IO[bytes]) -> None:
    """Store `content` (from its start) for an artifact; sets its `stored`, `size` and `sha256`, saves no row."""
    content.seek(0)
    artifact.sha256, artifact.size = Hashing(content).read_all()
    content.seek(0)
    with asking():
        artifact.stored = default_storage.save(f"{artifact.run.key}/{artifact.key}", File(content))


def forget_unregistered(run: Run, registered: Collection[str]) -> int:
    """Remove what the storage holds of a run and no row names: a process that died between the two left it there.

    ``registered`` are the names in use. A storage that cannot list keeps everything. Returns how many were removed.
    """
    try:
        with asking():
            _folders, names = default_storage.listdir(run.key)
    except (FileNotFoundError, NotImplementedError):
        return 0
    left = [stored for name in names if (stored := f"{run.key}/{name}") not in registered]
    for stored in left:
        remove(stored)
    return len(left)


def remove(stored: str) -> None:
    """Remove what the storage holds under this name."""
    with asking():
        default_storage.delete(stored)


def delete(artifact: Artifact) -> None:
    """Remove the stored bytes; the row stays and says so by its state."""
    if artifact.stored:
        remove(artifact.stored)
        artifact.stored = ""


def open_stored(artifact: Kept) -> IO[bytes]:
    """The stored bytes, seekable. Raises NotReadable, or FileNotFoundError when the storage lost them.

    Here or while they are read: StorageFails when it cannot be told.
    """
    if not artifact.readable:
        raise NotReadable(artifact.state)
    if not artifact.stored:
        raise FileNotFoundError(artifact.path)
    with asking():
        return io.BufferedReader(_Stored(default_storage.open(artifact.stored, "rb")), CHUNK)


class _Stored(io.RawIOBase):
    """A stored file whose storage may fail at any read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        with asking():
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with asking():
            self._file.seek(offset, whence)
            return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


def chunks(artifact: Kept) -> Iterator[bytes]:
    """All bytes in pieces. The last piece comes only after the whole hash was found right; else HashDiffers.

    Hashing goes on beside the sending, so that the check costs little time.
    """
    digest = hashlib.sha256()
    held = b""
    with open_stored(artifact) as file, ThreadPoolExecutor(1) as hasher:
        hashed: Future[None] | None = None
        while piece := file.read(CHUNK):
            if hashed is not None:
                hashed.result()
            hashed = hasher.submit(digest.update, piece)
            if held:
                yield held
            held = piece
    if digest.hexdigest() != artifact.sha256:
        raise HashDiffers
    if held:
        yield held


def verify(artifact: Artifact) -> bool:
    """Whether the stored bytes are those that were registered; reads all of them. Raises StorageFails."""
    try:
        with open_stored(artifact) as file:
            return Hashing(file).read_all() == (artifact.sha256, artifact.size)
    except FileNotFoundError:
        return False


def range_chunks(artifact: Artifact, start: int, end: int) -> Iterator[bytes]:
    """Bytes `start` to before `end`. Raises HashDiffers before the first byte when the file is another one."""
    if not verify(artifact):
        raise HashDiffers
    with open_stored(artifact) as file:
        file.seek(start)
        left = end - start
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece
