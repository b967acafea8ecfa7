"""A credential is recognised however a server of JSON writes it, and nothing else is."""

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.images.gateway.model_gateway.echo import SHORTEST, Pieces, holds

KEY = 'sk-a/b&c"d\\e<f>+1'
PLAIN = "SENTINEL-c0ffee/1234"


def escaped(text: str, rng: random.Random) -> str:
    """As some server might write it in a text of JSON: each character in a way of its own."""
    ways = (
        lambda char: json.dumps(char)[1:-1],
        lambda char: f"\\u{ord(char):04x}",
        lambda char: f"\\u{ord(char):04X}",
        lambda char: "\\/" if char == "/" else json.dumps(char)[1:-1],
    )
    return "".join(rng.choice(ways)(char) for char in text)


def nested(text: str, levels: int, rng: random.Random) -> str:
    for _ in range(levels):
        text = f'{{"a":"{escaped(text, rng)}"}}'
    return text


@pytest.mark.parametrize("key", [KEY, PLAIN])
@pytest.mark.parametrize("levels", [1, 2, 3])
@given(seed=st.integers(0, 2**32))
def test_every_spelling_that_a_reader_undoes_is_found(key: str, levels: int, seed: int) -> None:
    text = nested(f"before {key} after", levels, random.Random(seed))
    value = text
    for _ in range(levels):
        value = json.loads(value)["a"]
    assert key in value
    assert holds(text.encode(), key)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-le"])
def test_every_encoding_that_a_reader_detects_is_looked_through(encoding: str) -> None:
    body = json.dumps({"a": PLAIN.replace("S", "§S")}).replace("/", "\\/").encode(encoding)
    assert json.loads(body)["a"].endswith(PLAIN[1:]) and holds(body, PLAIN)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("space", ["", " "])
def test_a_text_in_several_lines_of_an_event_is_one(end: str, space: str) -> None:
    lines = [f'{{"a":"{PLAIN[:5]}', f"{PLAIN[5:9]}", f'{PLAIN[9:]}"}}']
    body = "".join(f"data:{space}{line}{end}" for line in lines)
    assert holds(body.encode(), PLAIN)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", json.dumps({"a": PLAIN[:-1]}).encode(), json.dumps({"a": PLAIN.lower()}).encode(),
        json.dumps({"a": PLAIN[::-1]}).encode(), ("\\u0053" + PLAIN[2:]).encode(),
        b"\\" * 1000, b"\\u00", b"\\u005", b"\\",
    ],
)  # fmt: skip
def test_what_does_not_hold_it_is_passed_on(body: bytes) -> None:
    assert not holds(body, PLAIN)


def test_a_credential_too_short_to_be_told_from_other_text_is_not_looked_for() -> None:
    key = "k" * SHORTEST
    assert holds(key.encode(), key) and not holds(key.encode(), key[1:]) and not holds(b"", None)


def delta(text: str, index: int = 0, name: str = "content") -> bytes:
    return json.dumps({"model": "m", "choices": [{"index": index, "delta": {name: text}}]}).encode()


@given(st.text(), st.lists(st.integers(1, len(PLAIN) - 1), unique=True), st.text())
def test_a_text_that_comes_in_pieces_is_one(before: str, cuts: list[int], after: str) -> None:
    places = [0, *sorted(cuts), len(PLAIN)]
    parts = [PLAIN[start:end] for start, end in pairwise(places)]
    pieces = Pieces(PLAIN)
    parts[0] = before + parts[0]
    for said, part in enumerate(parts[:-1], 1):
        assert not pieces.add(delta(part))
        assert pieces.pending or places[said] < SHORTEST  # never is more of it given away than that
        assert not pieces.add(delta(PLAIN[:3], 1)) and not pieces.add(delta(PLAIN[3:], 0, "reasoning"))
    assert pieces.add(delta(parts[-1] + after))


def test_a_text_that_goes_on_otherwise_is_not_waited_for() -> None:
    pieces = Pieces(PLAIN)
    assert not pieces.add(delta("x" + PLAIN[:-1])) and pieces.pending
    assert not pieces.add(delta("x")) and not pieces.pending
    assert not pieces.add(delta(PLAIN[-1])) and not pieces.pending


def test_a_beginning_within_a_beginning_is_seen() -> None:
    pieces = Pieces("abababababac")
    assert not pieces.add(delta("ababababab")) and not pieces.add(delta("ababab"))
    assert pieces.add(delta("ac"))


@pytest.mark.parametrize("key", [None, "short"])
def test_without_a_credential_to_look_for_nothing_waits(key: str | None) -> None:
    pieces = Pieces(key)
    assert not pieces.add(delta("short")) and not pieces.pending


@pytest.mark.parametrize("data", [b"[DONE]", b"{", b"[" * 100_000, b'"\xff"', b"1"])
def test_an_event_that_is_no_document_is_no_piece(data: bytes) -> None:
    assert not Pieces(PLAIN).add(data)


def test_what_begins_in_ever_new_places_is_not_all_remembered() -> None:
    pieces = Pieces(PLAIN)
    for number in range(5_000):
        pieces.add(delta(PLAIN[:4], number))
    assert not pieces.add(delta(PLAIN[4:], 0)) and pieces.add(delta(PLAIN[4:], 4_999))
