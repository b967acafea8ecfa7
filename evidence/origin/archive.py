"""A run's folder inside a ZIP, read where it lies: bounded, strict, and without unpacking anything.

What a ZIP can say twice, or to one reader and not to another, is refused whole: a name that is absolute, climbs or
stands there again, also in other case or form; links and devices; encryption; anything before or behind it; more files
or bytes than a run has, whatever its headers say.
"""

import errno
import hashlib
import stat
import struct
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import stat_result
from pathlib import Path
from typing import IO, NoReturn
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from benchsite.lib.folder import CHUNK, MAX_DEPTH, Entry, FileRead, FileState, Folder, Listing
from benchsite.lib.foreign_files import is_foreign

MAX_FILES = 40_960
MAX_BYTES = 1024 * 1024 * 1024
MAX_DIRECTORY_BYTES = 16 * 1024 * 1024
MAX_NAME = 1024
_END, _END64, _LOCATOR = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_ENCRYPTED = 0x1 | 0x20 | 0x40 | 0x2000  # also of patches
# What zipfile raises for a member whose own header or data is not what the directory says.
_DAMAGED = (BadZipFile, NotImplementedError, ValueError, EOFError, zlib.error)


class ArchiveProblem(ValueError):
    """A ZIP that is refused whole. `code` is stable."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(code)
        self.code = code
        self.sentence = sentence


def _refuse(code: str, sentence: str) -> NoReturn:
    raise ArchiveProblem(f"archive.{code}", sentence)


class Archive(Folder):
    """The files of a ZIP; one folder around all of them, as an export has, is taken off."""

    def __init__(self, file: IO[bytes]) -> None:
        """Reads the ZIP's directory. Raises ArchiveProblem, and OSError when the file cannot be read."""
        super().__init__(Path("/"))  # nothing is read there; its name says nothing of the run
        _bound(file)
        try:
            self._zip = ZipFile(file, metadata_encoding="utf-8")
        except (BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise ArchiveProblem("archive.damaged", "It is no whole ZIP.") from error
        self._members = _members(self._zip)
        self._folders: dict[str, set[str]] = {}
        for path in self._members:
            while path:
                above, _, name = path.rpartition("/")
                self._folders.setdefault(above, set()).add(name)
                path = above

    def read(self, path: str, *, limit: int) -> FileRead:
        member = self._members.get(path)
        if member is None:
            return FileRead(path, self._absence(path))
        if member.file_size > limit:
            return FileRead(path, FileState.TOO_LARGE, member.file_size)
        try:
            data = b"".join(self._pieces(member))
        except _DAMAGED:
            return FileRead(path, FileState.UNREADABLE, detail="damaged")
        return FileRead(path, FileState.OK if data else FileState.EMPTY, len(data), data)

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[int, stat_result]]:
        """Nothing in a ZIP has a descriptor of its own."""
        raise OSError(errno.ENOTSUP, "in an archive")
        yield

    def sha256(self, path: str, *, limit: int) -> tuple[FileState, int, str | None]:
        member = self._members.get(path)
        if member is None:
            return self._absence(path), 0, None
        if member.file_size > limit:
            return FileState.TOO_LARGE, member.file_size, None
        digest, size = hashlib.sha256(), 0
        try:
            for piece in self._pieces(member):
                digest.update(piece)
                size += len(piece)
        except _DAMAGED:
            return FileState.UNREADABLE, 0, None
        return FileState.OK if size else FileState.EMPTY, size, digest.hexdigest()

    def names(self, path: str = "", *, limit: int = 1000) -> tuple[str, ...]:
        return tuple(sorted(self._folders.get(path, ()))[:limit])

    def folders(self, path: str, *, limit: int) -> tuple[str, ...]:
        return tuple(name for name in self.names(path, limit=limit) if f"{path}/{name}" in self._folders)

    def walk(self, path: str = "", *, limit: int) -> Listing:
        base = f"{path}/" if path else ""
        found = sorted(name for name in self._members if name.startswith(base))
        entries = (Entry(name, _state(self._members[name]), self._members[name].file_size) for name in found[:limit])
        return Listing(tuple(entries), len(found) > limit)

    def _absence(self, path: str) -> FileState:
        return FileState.UNSAFE_TYPE if path in self._folders else FileState.MISSING

    def _pieces(self, member: ZipInfo) -> Iterator[bytes]:
        """All bytes. zipfile gives no more than the header says, and raises BadZipFile when the checksum differs."""
        with self._zip.open(member) as file:
            left = member.file_size
            while left and (piece := file.read(min(CHUNK, left))):
                left -= len(piece)
                yield piece
            if left or file.read(1):
                raise BadZipFile("another size than its header says")


def _state(member: ZipInfo) -> FileState:
    return FileState.OK if member.file_size else FileState.EMPTY


def _bound(file: IO[bytes]) -> None:
    """Look at the end record, before anything is built of what it announces. It must be the very end of the file."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    if len(end) < _END.size or end[:4] != b"PK\5\6":
        _refuse("damaged", "It does not end as a ZIP does; a comment or anything else behind it is refused.")
    _, disk, first_disk, _, entries, length, start, comment = _END.unpack(end)
    behind = size - _END.size
    if 0xFFFF in (entries, disk) or 0xFFFFFFFF in (length, start):
        file.seek(max(0, behind - _LOCATOR.size))
        locator = file.read(_LOCATOR.size)
        if len(locator) < _LOCATOR.size or locator[:4] != b"PK\6\7":
            _refuse("damaged", "Its 64-bit end record is missing.")
        at = _LOCATOR.unpack(locator)[2]
        if at + _END64.size + _LOCATOR.size != behind:
            _refuse("damaged", "Its 64-bit end record is not where it belongs.")
        file.seek(at)
        signature, _, _, _, disk, first_disk, _, entries, length, start = _END64.unpack(file.read(_END64.size))
        behind = at if signature == b"PK\6\6" else -1
    if comment or disk or first_disk or start + length != behind:
        _refuse("damaged", "Its directory is not where its end says, or it has several parts.")
    if entries > MAX_FILES or length > MAX_DIRECTORY_BYTES:
        _refuse("too_many", f"It has more than {MAX_FILES:,} files.")
    file.seek(0)


def _members(archive: ZipFile) -> dict[str, ZipInfo]:
    """The plain files by path, the one folder around them taken off. Raises ArchiveProblem."""
    found = archive.infolist()
    if sum(member.file_size for member in found) > MAX_BYTES:
        _refuse("too_large", f"Its files are larger than {MAX_BYTES:,} bytes together.")
    if found and min(member.header_offset for member in found) != 0:
        _refuse("damaged", "Something stands before its first file.")
    seen: dict[str, bool] = {}
    for member in found:
        name = _name(member)
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            _refuse("duplicate_name", f"It has {name!a} twice.")
        seen[folded] = member.is_dir()
    for folded in seen:
        above = folded.split("/")[:-1]
        if any(seen.get("/".join(above[:depth])) is False for depth in range(1, len(above) + 1)):
            _refuse("duplicate_name", f"{folded!a} lies below a file.")
    files = {_name(member): member for member in found if not member.is_dir()}
    tops = {name.partition("/")[0] for name in files if not is_foreign(name.partition("/")[0])}
    (top,) = tops if len(tops) == 1 else ("",)
    if top in ("", "evidence", "trials") or top in files:
        return files
    return {name.removeprefix(f"{top}/"): member for name, member in files.items()}


def _name(member: ZipInfo) -> str:
    """The member's path without a folder's last slash, after everything about it was looked at."""
    name = member.orig_filename.removesuffix("/") if member.is_dir() else member.orig_filename
    parts = name.split("/")
    odd = member.orig_filename != member.filename or not name.isprintable() or ":" in parts[0]
    if odd or len(name) > MAX_NAME or len(parts) > MAX_DEPTH + 1 or any(part in ("", ".", "..") for part in parts):
        _refuse("name", f"It has the name {ascii(name)[:200]}, which is not that of a file in a run's folder.")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if member.is_dir() else stat.S_IFREG):
        _refuse("link", f"{name!a} is a link or no plain file.")
    if member.flag_bits & _ENCRYPTED or member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        _refuse("encoding", f"{name!a} is encrypted, or packed in a way that is not read.")
    return name
