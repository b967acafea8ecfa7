"""A strict, streaming reader of the GNU tar archives that containers send (design 3.7).

Only regular files and directories below the one path that was asked for are taken. Everything else is refused,
listed and counted. Nothing is ever sought, and no more than `Limits` is read or written.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

BLOCK = 512
MAX_NAME_BYTES = 1024
MAX_LONG_NAME_BYTES = 64 * 1024
PAGE = 4096
MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 32
MAX_REFUSALS = 50
MAX_TRAILER = 64 * 1024
WRITE_CHUNK = 256 * 1024

# What an honest tar sends of links, special files and odd names: each is listed, what stands beside it is taken.
PASSED_OVER = frozenset({"link", "device", "fifo", "socket", "name"})
HIDDEN = "[REDACTED]"
# What an honest tar sends of too much. Every other refusal is of an archive that no tar makes of files.
TOO_MUCH = frozenset({"too_large", "too_many"})
# Members whose data could not be skipped safely, or that change the meaning of those that follow.
_ENDS_READING = frozenset({"sparse", "format", "too_large", "too_many", "checksum", "truncated"})
_KIND_CODES = {
    b"1": "hard_link", b"2": "link", b"3": "device", b"4": "device", b"6": "fifo", b"S": "sparse",
}  # fmt: skip


class Room:
    """Space in whole pages of memory that several downloads share: what is taken must fit where it goes next."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether a file of this size (bytes) still fits; if so its pages are spoken for."""
        with self._lock:
            pages = size + -size % PAGE
            if pages > self._left:
                return False
            self._left -= pages
            return True


@dataclass(frozen=True, slots=True)
class Limits:
    """`bytes` bounds the sum of the files' sizes, refused ones too, `files` the count of all members. A name that
    `tells` a secret is an odd name, and is listed as `HIDDEN`."""

    bytes: int
    files: int
    room: Room | None = None
    tells: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class Refusal:
    """`code` is the last part of `transfer.<code>`; `path` is relative to the asked path, "" for itself."""

    path: str
    code: str


class Place(Protocol):
    """Where the taken members go. Paths are relative, checked, and "" for the asked path itself."""

    def directory(self, path: str) -> None: ...
    def file(self, path: str, chunks: Iterator[bytes]) -> None: ...


@dataclass(slots=True)
class Unpacked:
    """What came: `root` is "file", "directory" or None when nothing acceptable stood at the asked path.

    `modified` has the time of each file taken. `refusals` lists the first ones, `refused` counts all by code.
    `ended_by` is the code that ended reading early.
    """

    root: str | None = None
    files: int = 0
    size: int = 0
    members: int = 0
    modified: dict[str, int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    ended_by: str | None = None

    @property
    def complete(self) -> bool:
        return self.ended_by is None

    def refuse(self, path: str, code: str) -> None:
        self.refused[code] += 1
        if len(self.refusals) < MAX_REFUSALS:
            self.refusals.append(Refusal(path, code))


class MemberRefused(Exception):
    """One member that is not taken."""

    def __init__(self, code: str, path: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.path = path


@dataclass(frozen=True, slots=True)
class Header:
    """One tar header: `kind` is its type flag, `modified` the file's time in whole seconds since 1970."""

    name: bytes
    kind: bytes
    size: int
    modified: int


class ByteStream:
    """Exact reads over chunks of any size."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = bytearray()

    def exactly(self, size: int) -> bytes:
        """`size` bytes; MemberRefused `truncated` when the stream ends before."""
        while len(self._buffer) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise MemberRefused("truncated")
            self._buffer += chunk
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def pieces(self, size: int) -> Iterator[bytes]:
        """`size` bytes in pieces, then the padding to a whole block is dropped."""
        left = size
        while left > 0:
            take = min(left, len(self._buffer) or BLOCK, WRITE_CHUNK)
            yield self.exactly(take)
            left -= take
        self.exactly(-size % BLOCK)

    def ends_in_zeros(self) -> bool:
        """Read to the end; whether nothing came but the zeros that fill tar's last record."""
        data = bytes(self._buffer)
        while len(data) <= MAX_TRAILER and (chunk := next(self._chunks, None)) is not None:
            data += chunk
        return len(data) <= MAX_TRAILER and not any(data)


def unpack(chunks: Iterator[bytes], asked: str, place: Place, limits: Limits) -> Unpacked:
    """Read an archive made by `tar -C / --format=gnu -cf - <asked without its slash>` into `place`.

    Never raises for what the archive holds: the result names what was refused, and `complete` is False when
    reading had to end early. OSError from `place` (a full disk) passes through.
    """
    reader = _Reader(ByteStream(chunks), asked.strip("/").encode(), place, limits)
    reader.run()
    return reader.result


class _Reader:
    def __init__(self, stream: ByteStream, prefix: bytes, place: Place, limits: Limits) -> None:
        self.stream = stream
        self.prefix = prefix
        self.place = place
        self.limits = limits
        self.result = Unpacked()
        self.passed_over = 0
        self.seen: dict[str, str] = {}

    def run(self) -> None:
        try:
            while (header := next_header(self.stream)) is not None:
                self._member(header)
        except MemberRefused as refused:
            self._end(refused.path, refused.code)
            return
        if not self.stream.ends_in_zeros():
            self._end("", "format")

    def _end(self, path: str, code: str) -> None:
        self.result.refuse(path, code)
        self.result.ended_by = code

    def _member(self, header: Header) -> None:
        self.result.members += 1
        if self.result.members > self.limits.files:
            raise MemberRefused("too_many")
        path = ""
        try:
            path = relative_name(header.name, self.prefix)
            if self.limits.tells(path):
                path = HIDDEN
                raise MemberRefused("name")
            self._take(path, header)
        except MemberRefused as refused:
            if refused.code in _ENDS_READING:
                raise MemberRefused(refused.code, path or refused.path) from refused
            self.result.refuse(path or refused.path, refused.code)
            self._skip(header)

    def _take(self, path: str, header: Header) -> None:
        if code := _KIND_CODES.get(header.kind):
            raise MemberRefused(code)
        if header.kind == b"5":
            if header.size:
                raise MemberRefused("format")
            self._claim(path, "directory")
            self.place.directory(path)
        elif header.kind in (b"0", b"\0"):
            self._file(path, header)
        else:
            raise MemberRefused("format")

    def _file(self, path: str, header: Header) -> None:
        self._require_within(header)
        self._claim(path, "file")
        if self.limits.room is not None and not self.limits.room.take(header.size):
            raise MemberRefused("too_large")
        self.result.files += 1
        self.result.size += header.size
        self.result.modified[path] = header.modified
        pieces = self.stream.pieces(header.size)
        self.place.file(path, pieces)
        for _ in pieces:
            pass

    def _claim(self, path: str, kind: str) -> None:
        """Remember a path; refuse a second member of one name and a file in a directory's place."""
        if path in self.seen:
            raise MemberRefused("duplicate")
        parents = path.split("/")[:-1]
        above = ["/".join(parents[:depth]) for depth in range(1, len(parents) + 1)]
        if path and self.seen.get("") == "file":
            raise MemberRefused("conflict")
        if any(self.seen.get(parent, "directory") != "directory" for parent in above):
            raise MemberRefused("conflict")
        # A folder that is only part of a name is made as well, and counts as much.
        if len(self.seen) + sum(each not in self.seen for each in (*above, path)) > self.limits.files:
            raise MemberRefused("too_many")
        for parent in above:
            self.seen.setdefault(parent, "directory")
        self.seen[path] = kind
        if path == "":
            self.result.root = kind

    def _skip(self, header: Header) -> None:
        """Drop the data of a refused member; only regular files may have any."""
        if header.kind not in (b"0", b"\0"):
            if header.size:
                raise MemberRefused("format")
            return
        self._require_within(header)
        self.passed_over += header.size
        for _ in self.stream.pieces(header.size):
            pass

    def _require_within(self, header: Header) -> None:
        if header.size > self.limits.bytes - self.result.size - self.passed_over:
            raise MemberRefused("too_large")


def next_header(stream: ByteStream) -> Header | None:
    """The next member's header with its long name resolved, or None at the end mark."""
    long_name: bytes | None = None
    while True:
        header = _header(stream.exactly(BLOCK))
        if header is None:
            if long_name is not None or any(stream.exactly(BLOCK)):
                raise MemberRefused("format")
            return None
        if header.kind not in (b"L", b"K"):
            return replace(header, name=header.name if long_name is None else long_name)
        if not 0 < header.size <= MAX_LONG_NAME_BYTES:
            raise MemberRefused("too_large" if header.size else "format")
        data = b"".join(stream.pieces(header.size)).rstrip(b"\0")
        if header.kind == b"L":
            if long_name is not None:
                raise MemberRefused("format")
            long_name = data


def relative_name(name: bytes, prefix: bytes) -> str:
    """The member's path below `prefix`, "" for the asked path itself. Raises MemberRefused."""
    if name.startswith(b"/"):
        raise MemberRefused("absolute", _shown(name))
    parts = name.rstrip(b"/").split(b"/")
    if b".." in parts:
        raise MemberRefused("parent", _shown(name))
    top = prefix.split(b"/")
    if parts[: len(top)] != top:
        raise MemberRefused("outside", _shown(name))
    below = parts[len(top) :]
    if any(part in (b"", b".") or len(part) > MAX_COMPONENT_BYTES for part in below):
        raise MemberRefused("name", _shown(name))
    if len(name) > MAX_NAME_BYTES or len(below) > MAX_DEPTH:
        raise MemberRefused("name", _shown(name))
    try:
        text = b"/".join(below).decode("utf-8")
    except UnicodeDecodeError:
        raise MemberRefused("name", _shown(name)) from None
    if not text.isprintable():
        raise MemberRefused("name", _shown(name))
    return text


def _shown(name: bytes) -> str:
    return name[:200].decode("utf-8", "replace").encode("unicode_escape").decode("ascii")


def _header(block: bytes) -> Header | None:
    if not any(block):
        return None
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    if _octal(block[148:156]) != total:
        raise MemberRefused("checksum")
    if block[257:263] not in (b"ustar ", b"ustar\0"):
        raise MemberRefused("format")
    name = block[:100].split(b"\0", 1)[0]
    if block[257:265] == b"ustar\x0000" and (above := block[345:500].split(b"\0", 1)[0]):
        name = above + b"/" + name
    return Header(name, block[156:157], _size(block[124:136]), _time(block[136:148]))


def _size(field_: bytes) -> int:
    if field_[0] == 0x80:
        return int.from_bytes(field_[1:], "big")
    return _octal(field_)


def _time(field_: bytes) -> int:
    """GNU tar writes a time before 1970, or beyond eleven octal digits, as a two's complement."""
    if field_[0] in (0x80, 0xFF):
        return int.from_bytes(field_[1:], "big", signed=field_[0] == 0xFF)
    return _octal(field_)


def _octal(field_: bytes) -> int:
    text = field_.strip(b" \0")
    if not text or any(digit not in b"01234567" for digit in text):
        raise MemberRefused("format")
    return int(text, 8)
