"""Frames of the socket pair: what is whole and within its bound is read, everything else ends the conversation."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.wire import frames
from runs.wire.frames import CHUNK, END, MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES, MESSAGE, Closed, Frame, Violation


async def parsed(data: bytes) -> tuple[list[Frame], str]:
    """The frames of `data` and how reading ended: `closed`, or a violation's code."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    found: list[Frame] = []
    try:
        while True:
            found.append(await frames.read(reader))
    except Closed:
        return found, "closed"
    except Violation as violation:
        return found, violation.code


def read_all(data: bytes) -> tuple[list[Frame], str]:
    return asyncio.run(parsed(data))


sent = st.one_of(
    st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3).map(
        lambda d: (MESSAGE, json.dumps(d).encode())
    ),
    st.binary(max_size=200).map(lambda data: (CHUNK, data)),
    st.just((END, b"")),
)


@given(st.lists(sent, max_size=8))
def test_what_is_sent_is_read(many: list[tuple[bytes, bytes]]) -> None:
    data = b"".join(frames.encode(kind, payload) for kind, payload in many)
    assert read_all(data) == ([Frame(kind, payload) for kind, payload in many], "closed")


@given(st.binary(max_size=400))
def test_any_bytes_give_frames_and_then_an_end_or_a_violation(data: bytes) -> None:
    found, how = read_all(data)
    assert how in {"closed", "sandbox.frame_kind", "sandbox.frame_size", "sandbox.frame_cut"}
    assert all(len(frame.payload) <= len(data) for frame in found)


@given(st.lists(sent, min_size=1, max_size=4), st.data())
def test_a_cut_anywhere_is_a_violation_or_a_shorter_conversation(
    many: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    whole = b"".join(frames.encode(kind, payload) for kind, payload in many)
    cut = data.draw(st.integers(0, len(whole) - 1))
    found, how = read_all(whole[:cut])
    assert found == [Frame(*each) for each in many][: len(found)] and len(found) < len(many)
    ends = {0}
    for kind, payload in many:
        ends.add(max(ends) + len(frames.encode(kind, payload)))
    assert how == ("closed" if cut in ends else "sandbox.frame_cut")


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"X\0\0\0\0", "sandbox.frame_kind"),
        (b"M\xff\xff\xff\xff", "sandbox.frame_size"),
        (b"M" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"), "sandbox.frame_size"),
        (b"C" + (MAX_CHUNK_BYTES + 1).to_bytes(4, "big"), "sandbox.frame_size"),
        (b"E\0\0\0\1x", "sandbox.frame_size"),
    ],
)
def test_a_length_is_judged_before_anything_of_it_is_read(head: bytes, code: str) -> None:
    assert read_all(head) == ([], code)


def test_a_frame_that_nobody_would_take_is_not_made() -> None:
    for kind, size in ((MESSAGE, MAX_MESSAGE_BYTES + 1), (CHUNK, MAX_CHUNK_BYTES + 1), (END, 1)):
        with pytest.raises(ValueError, match="a frame of"):
            frames.encode(kind, bytes(size))


async def content(data: bytes, max_bytes: int) -> bytes:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return b"".join([chunk async for chunk in frames.read_stream(reader, max_bytes=max_bytes)])


@given(st.lists(st.binary(max_size=600_000), max_size=3))
def test_a_content_comes_whole_whatever_its_pieces(pieces: list[bytes]) -> None:
    sent = b"".join(frames.stream(pieces))
    assert asyncio.run(content(sent, 10**7)) == b"".join(pieces)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frames.encode(CHUNK, bytes(11)) + frames.encode(END), "sandbox.content_size"),
        (frames.encode(CHUNK, b"a") + frames.message({}), "sandbox.frame_order"),
    ],
)
def test_a_content_that_is_too_long_or_interrupted_is_a_violation(data: bytes, code: str) -> None:
    with pytest.raises(Violation) as caught:
        asyncio.run(content(data, 10))
    assert caught.value.code == code


def test_the_blocking_reader_says_the_same() -> None:
    ours, theirs = socket.socketpair()
    data = [frames.message({"a": 1}), *frames.stream([bytes(300_000), b"x"])]

    def send(parts: Iterator[bytes]) -> None:
        for part in parts:
            theirs.sendall(part)
        theirs.close()

    sender = threading.Thread(target=send, args=(iter(data),))
    sender.start()
    assert json.loads(frames.receive(ours).payload) == {"a": 1}
    assert b"".join(frames.receive_stream(ours, max_bytes=10**6)) == bytes(300_000) + b"x"
    with pytest.raises(Closed):
        frames.receive(ours)
    sender.join()
    ours.close()
