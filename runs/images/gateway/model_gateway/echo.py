"""Does an answer hold the credential, in whichever spelling its reader would undo? Pure.

Servers escape more than JSON asks for: `\\/` (PHP), `\\u0026` (Go), any character as `\\u0073`. The whole body is
looked through as text, so that it matters neither what kind of answer it is nor whether it is well-formed.
"""

import re
from collections.abc import Iterator

SHORTEST = 8
# A message, a tool call's arguments as a text in it, and a document as a text in those.
_LEVELS = 3
# Escapes of one kind are taken together, as many as there are: a long answer of nothing else costs little.
_ESCAPES = re.compile(rb"((?:\\u00[2-7][0-9a-fA-F])++)|(?:\\(?!u00[2-7][0-9a-fA-F]).)++", re.DOTALL)
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
