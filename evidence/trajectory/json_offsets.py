"""The places of the entries of a huge JSON file's one long list, found in one pass and constant memory.

Lenient: the file is not validated, only followed bracket by bracket; a file that was cut gives what it has.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

BLOCK = 1024 * 1024
MAX_SMALL = 1024 * 1024
_INSIDE = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_TOKEN = re.compile(rb'["\[\]{},:]')


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def seek(self, offset: int, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `start` to before `end` of the file."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(slots=True)
class Layout:
    """What was found beside the entries: the list's key, the place of every other member, and trouble.

    `too_many` is set by whoever stops before the last entry.
    """

    list_key: str | None = None
    members: dict[str, Range] = field(default_factory=dict)
    scalars: int = 0
    complete: bool = False
    too_many: bool = False


class ListScanner:
    """Follows a file's brackets. `entries()` yields the place of each object or list in the wanted list.

    The wanted list is the value of the first of `keys` at the top, or the whole document when that is a list.
    """

    def __init__(self, source: Source, keys: tuple[str, ...]) -> None:
        self.layout = Layout()
        self._source = source
        self._keys = keys
        self._base = 0
        self._depth = 0
        self._list_depth: int | None = None
        self._in_string = False
        self._entry_start = 0
        self._key: bytes | None = None
        self._text: bytes | None = None
        self._value_start: int | None = None
        self._separators = 0
        self._found = 0

    def entries(self) -> Iterator[Range]:
        self._source.seek(0)
        rest = b""
        while block := self._source.read(BLOCK):
            buffer = rest + block
            position = yield from self._scan(buffer)
            rest = buffer[position:]
            self._base += position
        self.layout.scalars = max(0, self._separators + (self._found > 0) - self._found)

    def _scan(self, buffer: bytes) -> Generator[Range, None, int]:
        """Goes through the buffer; returns where the next one begins (a half-read escape or key is kept)."""
        position = 0
        size = len(buffer)
        while position < size:
            if self._in_string:
                position, done = self._rest_of_string(buffer, position)
                if not done:
                    return position
                continue
            if self._depth > (self._list_depth or 1):
                position = _INSIDE.match(buffer, position).end()  # type: ignore[union-attr]
            else:
                found = _TOKEN.search(buffer, position)
                position = found.start() if found else size
            if position >= size:
                break
            entry = self._token(buffer[position : position + 1], self._base + position)
            if entry is not None:
                yield entry
            position += 1
        return size

    def _rest_of_string(self, buffer: bytes, position: int) -> tuple[int, bool]:
        end = _STRING.match(buffer, position).end()  # type: ignore[union-attr]
        if self._text is not None and len(self._text) < MAX_SMALL:
            self._text += buffer[position:end]
        if end < len(buffer) and buffer[end : end + 1] == b'"':
            self._in_string = False
            return end + 1, True
        return end, False

    def _token(self, token: bytes, offset: int) -> Range | None:
        match token:
            case b'"':
                self._in_string = True
                self._text = b"" if self._depth == 1 else None
            case b"{" | b"[":
                self._open(token, offset)
            case b"}" | b"]":
                return self._close(offset)
            case b":" if self._depth == 1:
                self._key, self._text = self._text, None
                self._value_start = offset + 1
            case b",":
                self._separate(offset)
        return None

    def _open(self, token: bytes, offset: int) -> None:
        self._depth += 1
        if self._list_depth is None and self.layout.list_key is None:
            wanted = self._depth == 2 and self._name() in self._keys
            if token == b"[" and (wanted or self._depth == 1):
                self._list_depth = self._depth
                self.layout.list_key = self._name() if self._depth == 2 else ""
        elif self._list_depth is not None and self._depth == self._list_depth + 1:
            self._entry_start = offset

    def _close(self, offset: int) -> Range | None:
        entry = None
        if self._list_depth is not None and self._depth == self._list_depth + 1:
            self._found += 1
            entry = Range(self._entry_start, offset + 1)
        elif self._depth == self._list_depth:
            self._list_depth = None
        self._depth -= 1
        if self._depth == 0:
            self._end_member(offset)
            self.layout.complete = True
        return entry

    def _separate(self, offset: int) -> None:
        if self._depth == self._list_depth:
            self._separators += 1
        elif self._depth == 1:
            self._end_member(offset)

    def _end_member(self, offset: int) -> None:
        name = self._name()
        if name is not None and self._value_start is not None and name not in self.layout.members:
            self.layout.members[name] = Range(self._value_start, offset)
        self._key = self._value_start = None

    def _name(self) -> str | None:
        return self._key.decode("utf-8", "replace") if self._key is not None else None


def read_range(source: Source, place: Range, limit: int) -> bytes | None:
    """The bytes of a range, or None when it is longer than `limit`."""
    if place.length > limit:
        return None
    source.seek(place.start)
    pieces = []
    left = place.length
    while left > 0 and (block := source.read(left)):
        pieces.append(block)
        left -= len(block)
    return b"".join(pieces)
