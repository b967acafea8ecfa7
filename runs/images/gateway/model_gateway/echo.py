"""The search for the credential in an answer, in whichever spelling its reader would undo. Pure.

Servers escape more than JSON asks for: `\\/` (PHP), `\\u0026` (Go), any character as `\\u0073`. The whole body is
looked through as text, so that it matters neither what kind of answer it is nor whether it is well-formed. A stream
may say it in pieces, an event each.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

SHORTEST = 8
# A message, a tool call's arguments as a text in it, and a document as a text in those.
_LEVELS = 3
# Escapes of one kind are taken together, as many as there are: a long answer of nothing else costs little.
_ESCAPES = re.compile(rb"((?:\\u00[2-7][0-9a-fA-F])++)|(?:\\(?!u00[2-7][0-9a-fA-F]).)++", re.DOTALL)
_MOST_PLACES = 4_096
_NEXT_DATA_LINE = re.compile(rb"(?:\r\n|\r|\n)data: ?")


def holds(body: bytes, credential: str | None) -> bool:
    """Whether a reader of the body could come to the credential; never of one too short to be searched for."""
    if credential is None or len(credential) < SHORTEST:
        return False
    sought = credential.encode("ascii")
    return any(sought in text for text in _readings(body))


def _readings(body: bytes) -> Iterator[bytes]:
    """The body as it is, and as its readers see it."""
    yield body
    text = body.replace(b"\0", b"")  # of UTF-16 and UTF-32, which readers of JSON detect, the ASCII is left
    if b"data:" in text:
        text = _NEXT_DATA_LINE.sub(b"", text)  # an event's lines are one text
    yield text
    for _ in range(_LEVELS):
        if b"\\" not in text:
            return
        text = _ESCAPES.sub(_characters, text)
        yield text


def _characters(escapes: re.Match[bytes]) -> bytes:
    if escapes[1] is not None:
        return bytes.fromhex(escapes[1].replace(b"\\u00", b"").decode("ascii"))
    return escapes[0][1::2]


class Pieces:
    """Follows the texts of a stream's events, each by its place in them: the pieces of one place are one text.

    Of a text only how much of the credential it ends with is kept.
    """

    def __init__(self, credential: str | None) -> None:
        self._sought = credential if credential is not None and len(credential) >= SHORTEST else None
        self._begun: dict[tuple[object, ...], int] = {}

    @property
    def pending(self) -> bool:
        """Whether some text ends with what may be the beginning of the credential."""
        return any(length >= SHORTEST for length in self._begun.values())

    def add(self, data: bytes) -> bool:
        """Add an event's data; whether a text holds the credential now."""
        if self._sought is None:
            return False
        try:
            return any(self._adds(self._sought, place, text) for place, text in _texts(json.loads(data), ()))
        except (ValueError, RecursionError):
            return False  # no event of these APIs; it has been looked through by itself

    def _adds(self, sought: str, place: tuple[object, ...], text: str) -> bool:
        text = sought[: self._begun.pop(place, 0)] + text
        if sought in text:
            return True
        tail = text[1 - len(sought) :]
        start = tail.find(sought[0])
        while start >= 0:
            if sought.startswith(tail[start:]):
                self._begun[place] = len(tail) - start
                if len(self._begun) > _MOST_PLACES:
                    del self._begun[next(iter(self._begun))]
                break
            start = tail.find(sought[0], start + 1)
        return False


def _texts(value: Any, place: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    """Each text of a document and its place: the names that lead to it, and the numbers that its objects bear."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        numbers = tuple(number for name, number in value.items() if name.endswith("index") and type(number) is int)
        for name, item in value.items():
            yield from _texts(item, (*place, *numbers, name))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, place)
