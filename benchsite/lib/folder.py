"""Safe reading of an evidence folder: what is really at a place, with bounded reads and listings.

Everything below a folder that a run owned is hostile: links, FIFOs, devices, hard links, sparse files, huge
trees. Nothing here follows a link, blocks, or reads more than it was told to; each trouble has a named state.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

CHUNK = 1024 * 1024
MAX_DEPTH = 32
# What stands where a plain file of one name was wanted.
_TYPES = {
    stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
    stat.S_IFSOCK: "socket", stat.S_IFREG: "hard link",
}  # fmt: skip
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileState(StrEnum):
    OK = "ok"
    MISSING = "missing"
    EMPTY = "empty"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    UNSAFE_TYPE = "unsafe_type"


@dataclass(frozen=True, slots=True)
class FileRead:
    """One bounded read: bytes only when `state` is ok; `size` in bytes as the file system says."""

    path: str
    state: FileState
    size: int = 0
    data: bytes = b""
    detail: str = ""

    @property
    def sha256(self) -> str | None:
        return hashlib.sha256(self.data).hexdigest() if self.state in (FileState.OK, FileState.EMPTY) else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing found in a tree, directories not. `path` is the raw name, which may hold anything but NUL;
    `state` is ok, empty, unsafe_type or unreadable."""

    path: str
    state: FileState
    size: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    entries: tuple[Entry, ...]
    truncated: bool


class UnsafePath(ValueError):
    """A relative path that is absolute, climbs, is empty, or holds a NUL."""


def relative_parts(path: str) -> tuple[str, ...]:
    """The parts of a clean relative POSIX path; raises UnsafePath for anything else."""
    parts = tuple(path.split("/"))
    if not path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePath(path)
    return parts


class Folder:
    """A directory opened once; every access goes from its descriptor, part by part, without following links."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str, *, limit: int) -> FileRead:
        """The bytes of a regular file of at most `limit` bytes, or a named state."""
        try:
            with self.open(path) as (handle, info):
                return _read_open(handle, info, path, limit)
        except OSError as error:
            return FileRead(path, _state_of(error), detail=os.strerror(error.errno or 0))
        except UnsafePath:
            return FileRead(path, FileState.UNSAFE_TYPE, detail="unsafe path")

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A descriptor of a regular file with one name; raises OSError (ELOOP for unsafe types) or UnsafePath."""
        *folders, name = relative_parts(path)
        with self._directory(folders) as directory:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
                raise OSError(errno.ELOOP, "not a plain file")
            yield handle, info
        finally:
            os.close(handle)

    def sha256(self, path: str, *, limit: int) -> tuple[FileState, int, str | None]:
        """State, size and digest of a file of at most `limit` bytes, read in pieces."""
        try:
            with self.open(path) as (handle, info):
                if info.st_size > limit:
                    return FileState.TOO_LARGE, info.st_size, None
                digest, size = hash_descriptor(handle, limit)
        except (OSError, UnsafePath) as error:
            return (_state_of(error) if isinstance(error, OSError) else FileState.UNSAFE_TYPE), 0, None
        return (FileState.OK if size else FileState.EMPTY), size, digest

    def names(self, path: str = "", *, limit: int = 1000) -> tuple[str, ...]:
        """The names in a directory, sorted, at most `limit`; empty when it is not a real directory."""
        try:
            with self._directory(path.split("/") if path else []) as directory, os.scandir(directory) as found:
                names = [entry.name for _, entry in zip(range(limit), found, strict=False)]
        except OSError:
            return ()
        return tuple(sorted(names))

    def folders(self, path: str, *, limit: int) -> tuple[str, ...]:
        """Those of the first `limit` names in a directory that are real directories, sorted."""
        try:
            with self._directory(path.split("/") if path else []) as directory, os.scandir(directory) as found:
                first = [entry for _, entry in zip(range(limit), found, strict=False)]
                names = [entry.name for entry in first if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return ()
        return tuple(sorted(names))

    def walk(self, path: str = "", *, limit: int) -> Listing:
        """Everything below that is not a directory, at most `limit` entries, in a stable order per directory."""
        walking = _Walk(limit)
        try:
            with self._directory(path.split("/") if path else []) as directory:
                walking.list(directory, f"{path}/" if path else "")
        except OSError:
            pass  # no directory, so nothing below it
        return Listing(tuple(walking.entries), walking.truncated)

    @contextmanager
    def _directory(self, parts: list[str]) -> Iterator[int]:
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                deeper = os.open(part, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = deeper
            yield handle
        finally:
            os.close(handle)


class _Walk:
    """What was found so far. Each directory is opened once, from the one above it, so that depth costs nothing."""

    def __init__(self, limit: int) -> None:
        self.entries: list[Entry] = []
        self.truncated = False
        self._limit = limit
        self._directories = 0

    def list(self, directory: int, base: str) -> None:
        """Adds what lies in an open directory, which is called `base` with a slash at its end, and below it."""
        self._directories += 1
        try:
            with os.scandir(directory) as found:
                names = sorted(entry.name for _, entry in zip(range(self._limit + 1), found, strict=False))
        except OSError:
            return  # one that cannot be read is as an empty one
        folders = []
        for name in names:
            if len(self.entries) >= self._limit:
                self.truncated = True
                return
            entry = _entry(directory, name, base + name)
            if entry is not None:
                self.entries.append(entry)
            elif base.count("/") < MAX_DEPTH:
                folders.append(name)
            else:
                self.entries.append(Entry(base + name, FileState.UNREADABLE, 0, "nested too deeply"))
        self.truncated = len(names) > self._limit or self._directories > self._limit
        for name in folders:
            if self.truncated:
                return
            try:
                deeper = os.open(name, _DIRECTORY, dir_fd=directory)
            except OSError:
                continue
            try:
                self.list(deeper, f"{base}{name}/")
            finally:
                os.close(deeper)


def _entry(directory: int, name: str, path: str) -> Entry | None:
    """What is called `name` in an open directory; None for a real directory."""
    try:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        return Entry(path, FileState.UNREADABLE, 0, type(error).__name__)
    if stat.S_ISDIR(info.st_mode):
        return None
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        return Entry(path, FileState.UNSAFE_TYPE, 0, _TYPES.get(stat.S_IFMT(info.st_mode), "other"))
    return Entry(path, FileState.OK if info.st_size else FileState.EMPTY, info.st_size)


def hash_descriptor(handle: int, limit: int) -> tuple[str, int]:
    """SHA-256 and byte count of what a descriptor still holds, at most `limit` bytes of it."""
    digest = hashlib.sha256()
    size = 0
    while size < limit and (block := os.read(handle, min(CHUNK, limit - size))):
        digest.update(block)
        size += len(block)
    return digest.hexdigest(), size


def printable(path: str) -> str:
    """A file name that is safe to store and show: undecodable bytes and control characters are escaped."""
    return "".join(
        char if char.isprintable() and not 0xD800 <= ord(char) <= 0xDFFF else char.encode("unicode_escape").decode()
        for char in path
    )


def _read_open(handle: int, info: os.stat_result, path: str, limit: int) -> FileRead:
    if info.st_size > limit:
        return FileRead(path, FileState.TOO_LARGE, info.st_size)
    pieces = []
    left = limit + 1
    while left > 0 and (block := os.read(handle, min(CHUNK, left))):
        pieces.append(block)
        left -= len(block)
    data = b"".join(pieces)
    if len(data) > limit:
        return FileRead(path, FileState.TOO_LARGE, len(data))
    state = FileState.OK if data else FileState.EMPTY
    return FileRead(path, state, len(data), data)


def _state_of(error: OSError) -> FileState:
    match error.errno:
        case errno.ENOENT:
            return FileState.MISSING
        case errno.ELOOP | errno.ENOTDIR | errno.ENXIO | errno.EMLINK:
            return FileState.UNSAFE_TYPE
        case _:
            return FileState.UNREADABLE
