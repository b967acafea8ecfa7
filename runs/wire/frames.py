"""Frames of the socket pair: a kind, a length and a payload, each bounded before it is read.

A message is one JSON object. Contents travel as a stream: chunks, then one end. Whoever reads decides what may come
next; whatever else comes is a `Violation`, and nothing after it is read.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MESSAGE, CHUNK, END = b"M", b"C", b"E"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_CHUNK_BYTES = 256 * 1024
_HEAD = struct.Struct(">cI")
_BOUNDS = {MESSAGE: MAX_MESSAGE_BYTES, CHUNK: MAX_CHUNK_BYTES, END: 0}


class Violation(Exception):
    """The peer did what the protocol does not allow. ``code`` is stable, ``detail`` private and short."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = f"sandbox.{code}"
        self.detail = detail[:200]


class Closed(Exception):
    """The peer closed the connection where a frame was expected."""


@dataclass(frozen=True, slots=True)
class Frame:
    kind: bytes
    payload: bytes


def encode(kind: bytes, payload: bytes = b"") -> bytes:
    """The bytes of one frame. Raises ValueError for one that no peer would take."""
    if len(payload) > _BOUNDS[kind]:
        raise ValueError(f"a frame of {len(payload)} bytes")
    return _HEAD.pack(kind, len(payload)) + payload


def message(document: dict[str, Any]) -> bytes:
    return encode(MESSAGE, json.dumps(document, separators=(",", ":"), allow_nan=False).encode())


def stream(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The frames of a content: chunks cut to their bound, then the end."""
    for chunk in chunks:
        view = memoryview(chunk)
        for start in range(0, len(view), MAX_CHUNK_BYTES):
            yield encode(CHUNK, bytes(view[start : start + MAX_CHUNK_BYTES]))
    yield encode(END)


def _length(head: bytes) -> tuple[bytes, int]:
    kind, length = _HEAD.unpack(head)
    if kind not in _BOUNDS:
        raise Violation("frame_kind", repr(kind))
    if length > _BOUNDS[kind]:
        raise Violation("frame_size", f"{kind.decode()} of {length} bytes")
    return kind, length


async def read(reader: asyncio.StreamReader) -> Frame:
    """The next frame. Raises Violation, Closed."""
    kind, length = _length(await _piece(reader, _HEAD.size, first=True))
    return Frame(kind, await _piece(reader, length, first=False))


async def _piece(reader: asyncio.StreamReader, size: int, *, first: bool) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        if first and not error.partial:
            raise Closed from error
        raise Violation("frame_cut", f"{len(error.partial)} of {size} bytes") from error
    except ConnectionError as error:
        raise Closed from error


async def read_stream(reader: asyncio.StreamReader, *, max_bytes: int) -> AsyncIterator[bytes]:
    """The chunks of a content up to its end. Raises Violation beyond ``max_bytes`` and for any other frame."""
    total = 0
    while True:
        frame = await read(reader)
        if frame.kind == END:
            return
        if frame.kind != CHUNK:
            raise Violation("frame_order", "a message inside a content")
        total += len(frame.payload)
        if total > max_bytes:
            raise Violation("content_size", f"more than {max_bytes} bytes")
        yield frame.payload


def receive(connection: socket.socket) -> Frame:
    """The next frame, blocking. Raises Violation, Closed."""
    kind, length = _length(_exactly(connection, _HEAD.size, first=True))
    return Frame(kind, _exactly(connection, length, first=False))


def receive_stream(connection: socket.socket, *, max_bytes: int) -> Iterator[bytes]:
    """The same as `read_stream`, blocking."""
    total = 0
    while (frame := receive(connection)).kind != END:
        total += len(frame.payload)
        if frame.kind != CHUNK or total > max_bytes:
            raise Violation("content", "not a content within its bound")
        yield frame.payload


def _exactly(connection: socket.socket, size: int, *, first: bool) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            piece = connection.recv(min(size - len(data), 1 << 20))
        except ConnectionError as error:
            raise Closed from error
        if not piece:
            if first and not data:
                raise Closed
            raise Violation("frame_cut", f"{len(data)} of {size} bytes")
        data += piece
    return bytes(data)
