"""Tar streams of plain files, hashed on the way, never of links."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from runs.wire.copies import Entry
from runs.wire.failures import TransferFailed
from runs.wire.tar_reader import Limits

BLOCK = 512
READ_CHUNK = 256 * 1024
END_MARK = bytes(2 * BLOCK)
FILE_MODE, SCRIPT_MODE, DIRECTORY_MODE = 0o644, 0o755, 0o755


@dataclass(slots=True)
class Source:
    """One host file and its absolute path in the container."""

    host: Path
    target: str
    size: int
    mode: int
    path: str


@dataclass(slots=True)
class Upload:
    """One thing to send: directories first, then files. `purpose` is for the record."""

    purpose: str
    target: str
    directories: list[tuple[str, int]] = field(default_factory=list)
    files: list[Source] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(source.size for source in self.files)


def of_directory(purpose: str, source: Path, target: str, limits: Limits) -> Upload:
    """The tree below `source`, to stand at `target`. TransferFailed for links, devices, and too much."""
    upload = Upload(purpose, target)
    if source.is_symlink():
        raise TransferFailed("transfer.host_link", "A file of this task is a link.", source.name)
    for folder, directories, names in os.walk(source, onerror=_raise):
        here = Path(folder)
        relative = here.relative_to(source).as_posix()
        if relative != ".":
            upload.directories.append((_join(target, relative), DIRECTORY_MODE))
        for name in sorted(names):
            path = (here / name).relative_to(source).as_posix()
            upload.files.append(_source(here / name, _join(target, path), path))
        for name in directories:
            if (here / name).is_symlink():
                raise TransferFailed("transfer.host_link", "A file of this task is a link.", name)
        directories.sort()
    _require_within(upload, limits)
    return upload


def of_file(purpose: str, source: Path, target: str, limits: Limits) -> Upload:
    upload = Upload(purpose, target, files=[_source(source, target, "")])
    _require_within(upload, limits)
    return upload


def stream(uploads: list[Upload]) -> Iterator[bytes]:
    """The archive of all uploads, to be unpacked at `/`; fills each upload's `entries` while it is read."""
    for upload in uploads:
        for path, mode in upload.directories:
            yield from _header(path + "/", 0, mode, b"5")
        for source in upload.files:
            yield from _header(source.target, source.size, source.mode, b"0")
            yield from _content(source, upload)
    yield END_MARK


def sha256_of(path: Path) -> str:
    """The hash of a plain file; a link is never followed."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _content(source: Source, upload: Upload) -> Iterator[bytes]:
    digest, left = hashlib.sha256(), source.size
    with os.fdopen(os.open(source.host, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        while left:
            data = file.read(min(left, READ_CHUNK))
            if not data:
                raise TransferFailed("transfer.changed", "A file became shorter while it was sent.", source.target)
            left -= len(data)
            digest.update(data)
            yield data
        if file.read(1):
            raise TransferFailed("transfer.changed", "A file became longer while it was sent.", source.target)
    upload.entries.append(Entry(source.path, source.size, digest.hexdigest()))
    if padding := -source.size % BLOCK:
        yield bytes(padding)


def _source(host: Path, target: str, path: str) -> Source:
    seen = host.lstat()
    if not stat.S_ISREG(seen.st_mode):
        raise TransferFailed("transfer.host_special", "Only plain files are sent into a container.", str(path))
    mode = SCRIPT_MODE if seen.st_mode & 0o111 else FILE_MODE
    return Source(host, target, seen.st_size, mode, path)


def _require_within(upload: Upload, limits: Limits) -> None:
    if upload.size > limits.bytes or len(upload.files) + len(upload.directories) > limits.files:
        raise TransferFailed(
            "transfer.upload_too_large",
            "More than the plan allows would be sent into a container.",
            upload.target,
        )


def _join(target: str, relative: str) -> str:
    return (PurePosixPath(target) / relative).as_posix()


def _raise(error: OSError) -> None:
    raise TransferFailed("transfer.host_unreadable", "A file of this task cannot be read.", str(error)) from error


def _header(path: str, size: int, mode: int, kind: bytes) -> Iterator[bytes]:
    name = path.lstrip("/").encode()
    if len(name) > 100:
        yield _block(b"././@LongLink", len(name) + 1, 0, b"L")
        yield name + bytes(BLOCK - len(name) % BLOCK)
    yield _block(name[:100], size, mode, kind)


def _block(name: bytes, size: int, mode: int, kind: bytes) -> bytes:
    """One GNU tar header, owned by root, without a time so that one tree is always the same archive."""
    block = bytearray(BLOCK)
    block[0 : len(name)] = name
    block[100:108] = b"%07o\0" % mode
    block[108:116] = block[116:124] = b"%07o\0" % 0
    block[124:136] = b"%011o\0" % size
    block[136:148] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:265] = b"ustar  \0"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)
