"""Server-sent events, read as they come: where each one ends and what it says. Pure.

Whatever the pieces are in which the bytes come, the events are the same ones; what is left over when a stream ends
belongs to no event (the standard throws it away) and shows that the stream was cut.
"""

import re
from dataclasses import dataclass

# An end of a line and then another: an empty line. A carriage return may be half of an end until the next byte is seen.
_EMPTY_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?=[^\n]))")
_MARK = b"\xef\xbb\xbf"
MOST_BLOCKS = 262_144


class EventTooLarge(Exception):
    """An event has more bytes than the reader takes, or the stream more blocks."""


@dataclass(frozen=True)
class Event:
    """`name` is that of its `event:` line, empty without one; `data` its `data:` lines, joined."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Block:
    """Bytes as they came, up to an empty line; without `event` when they only keep the stream alive."""

    raw: bytes
    event: Event | None


class EventReader:
    """Reads one stream of which no event may have more than `most_bytes`, and which may have so many blocks: of those
    that are empty, millions would fit into an answer."""

    def __init__(self, most_bytes: int, most_blocks: int = MOST_BLOCKS) -> None:
        self._most_bytes = most_bytes
        self._left = most_blocks
        self._rest = bytearray()
        self._first = True

    def feed(self, data: bytes) -> list[Block]:
        """The blocks that are whole now. Raises EventTooLarge."""
        looked_at = len(self._rest)
        self._rest += data
        blocks: list[Block] = []
        end = 0
        for boundary in _EMPTY_LINE.finditer(self._rest, max(0, looked_at - 3)):
            blocks.append(self._block(bytes(self._rest[end : boundary.end()])))
            end = boundary.end()
        del self._rest[:end]
        if len(self._rest) > self._most_bytes:
            raise EventTooLarge
        return blocks

    def finish(self) -> list[Block]:
        """What is left at the stream's end: a block whose last carriage return was waited for, or a piece of one that
        never became whole, which is no event."""
        rest = bytes(self._rest)
        self._rest.clear()
        if rest.endswith((b"\n\r", b"\r\r")):
            return [self._block(rest)]
        return [Block(rest, None)] if rest else []

    def _block(self, raw: bytes) -> Block:
        self._left -= 1
        if len(raw) > self._most_bytes or self._left < 0:
            raise EventTooLarge
        text = raw.removeprefix(_MARK) if self._first else raw
        self._first = False
        name, data = "", []
        for line in text.splitlines():
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value.decode("utf-8", "replace")
            elif field == b"data":
                data.append(value)
        return Block(raw, Event(name, b"\n".join(data)) if data else None)
