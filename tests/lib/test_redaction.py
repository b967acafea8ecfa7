"""Known secrets are found and removed in every form they take, across block borders, and nothing else is."""

import base64
import io
import json
import random
import re
from collections.abc import Callable
from html import escape
from html.entities import html5
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchsite.lib import redaction
from benchsite.lib.redaction import MARK, Scrubber

KEY = "sk-SENTINEL/ab+c=\"d\\e'f é"
PEM = "-----BEGIN KEY-----\nU0VOVElORUwtb25lLWxpbmU=\nU0VOVElORUwtdHdv\n-----END KEY-----\n"


def _forms_of(value: str) -> dict[str, bytes]:
    plain = value.encode()
    return {
        "plain": plain,
        "json": json.dumps({"a": value}).encode(),
        "json with unicode": json.dumps({"a": value}, ensure_ascii=False).encode(),
        "json with escaped slashes": json.dumps({"a": value}).replace("/", "\\/").encode(),
        "json in json": json.dumps({"a": json.dumps({"b": value})}).encode(),
        "url": quote(plain, safe="").encode(),
        "url path": quote(plain).encode(),
        "url form": quote_plus(plain).encode(),
        "url in lower case": re.sub("%..", lambda found: found[0].lower(), quote(plain, safe="")).encode(),
        "base64": base64.b64encode(plain),
        "base64 for urls": base64.urlsafe_b64encode(plain),
        "basic auth": base64.b64encode(b"user:" + plain),
        "basic auth, other alignment": base64.b64encode(b"use:" + plain + b"@host"),
        "utf-16": value.encode("utf-16-le"),
        "utf-16, big end first": value.encode("utf-16-be"),
        "json, every character escaped": "".join(f"\\u{ord(sign):04x}" for sign in value).encode(),
        "json in json, every character escaped": "".join(f"\\\\u{ord(sign):04X}" for sign in value).encode(),
        "json as Go writes it": json.dumps(value).replace("+", "\\u002b").replace("'", "\\u0027").encode(),
        "html": escape(value).encode(),
        "html, decimal": "".join(f"&#{ord(sign)};" for sign in value).encode(),
        "html, hexadecimal": "".join(f"&#x{ord(sign):02X};" for sign in value).encode(),
        "html in html": escape(escape(value)).encode(),
        "html in json": json.dumps(escape(value)).encode(),
        "url, every byte escaped": "".join(f"%{byte:02x}" for byte in plain).encode(),
        "url in a url": quote(quote(plain, safe="")).encode(),
        "base64, folded": b"\r\n".join(textwrap(base64.b64encode(b"user:" + plain), 8)),
        "base64, folded in json": json.dumps(base64.encodebytes(b"user:" * 20 + plain).decode()).encode(),
        "base64 in json as Go writes it": base64.b64encode(plain).replace(b"+", b"\\u002b").replace(b"/", b"\\/"),
    }


def textwrap(data: bytes, width: int) -> list[bytes]:
    return [data[start : start + width] for start in range(0, len(data), width)]


@pytest.mark.parametrize("form", _forms_of(KEY), ids=str)
def test_a_secret_is_removed_in_every_form(form: str) -> None:
    scrubber = Scrubber([KEY])
    data = b"before " + _forms_of(KEY)[form] + b" after"
    assert scrubber.found_in(data)
    scrubbed = scrubber.scrub(data)
    assert scrubbed.replaced == 1
    assert not scrubber.found_in(scrubbed.data)
    assert scrubbed.data.startswith(b"before ") and scrubbed.data.endswith(b" after") and MARK in scrubbed.data


def test_scrubbed_json_is_still_json() -> None:
    document = {"token": KEY, "nested": json.dumps({"authorization": f"Bearer {KEY}"})}
    scrubbed = Scrubber([KEY]).scrub(json.dumps(document).encode()).data
    assert json.loads(json.loads(scrubbed)["nested"]) == {"authorization": "Bearer [REDACTED]"}


@pytest.mark.parametrize(
    "text",
    [PEM, PEM.replace("\n", "\r\n"), json.dumps(PEM), "\n".join(f"log: {line}" for line in PEM.splitlines())],
)
def test_a_secret_of_several_lines_is_removed_whole_and_line_by_line(text: str) -> None:
    scrubbed = Scrubber([PEM]).scrub(text.encode()).data
    assert b"SENTINEL" not in scrubbed
    assert b"U0VOVElORUw" not in scrubbed


def test_the_markers_of_a_pem_file_are_no_secret() -> None:
    other = b"-----BEGIN KEY-----\nanother\n-----END KEY-----\n"
    assert not Scrubber([PEM]).found_in(other)


def test_short_values_are_counted_and_never_looked_for() -> None:
    scrubber = Scrubber(["1", "abc", "", "  ", "longer-secret"])
    assert scrubber.too_short == 2
    assert scrubber.scrub(b'{"reward": 1}').data == b'{"reward": 1}'


def test_no_secrets_change_nothing() -> None:
    scrubber = Scrubber([])
    sink = io.BytesIO()
    assert scrubber.scrub_stream(io.BytesIO(b"abc"), sink) == 0
    assert sink.getvalue() == b"abc"
    assert not scrubber.found_in_stream(io.BytesIO(b"abc"))


def test_a_scrubber_shows_no_secret_of_its_own() -> None:
    assert "SENTINEL" not in repr(Scrubber([KEY])) + str(Scrubber([KEY]))


def test_text_with_lone_surrogates_survives() -> None:
    assert Scrubber(["topsecret"]).scrub_text("\ud800 topsecret") == "\ud800 [REDACTED]"


@pytest.mark.parametrize("shift", [-30, -15, -8, -1, 0, 1])
def test_a_secret_across_a_block_border_is_removed(shift: int) -> None:
    data = b"x" * (redaction.BLOCK + shift) + KEY.encode() + b"y" * 100
    sink = io.BytesIO()
    assert Scrubber([KEY]).scrub_stream(io.BytesIO(data), sink) == 1
    assert sink.getvalue() == b"x" * (redaction.BLOCK + shift) + MARK + b"y" * 100
    assert Scrubber([KEY]).found_in_stream(io.BytesIO(data))


@settings(max_examples=300)
@given(
    pieces=st.lists(st.sampled_from([b"secret-A", b"secret-AB", b"se", b"cret-A", b"zz", b"[REDACTED]"]), max_size=12),
    block=st.integers(1, 12),
)
def test_a_stream_is_scrubbed_as_the_whole_is(pieces: list[bytes], block: int) -> None:
    scrubber = Scrubber(["secret-A", "secret-AB"])
    data = b"".join(pieces)

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(block)

    sink = io.BytesIO()
    replaced = scrubber.scrub_stream(Slow(data), sink)
    whole = scrubber.scrub(data)
    assert (sink.getvalue(), replaced) == (whole.data, whole.replaced)
    assert scrubber.found_in_stream(Slow(data)) == scrubber.found_in(data)
    assert not scrubber.found_in(whole.data)


WAYS: list[Callable[[str], str]] = [
    lambda sign: sign,
    lambda sign: f"\\u{ord(sign):04x}",
    lambda sign: f"\\\\u{ord(sign):04X}",
    lambda sign: "".join(f"%{byte:02X}" for byte in sign.encode()),
    lambda sign: f"%25{ord(sign):02x}" if ord(sign) < 128 else sign,
    lambda sign: f"&#{ord(sign)};",
    lambda sign: f"&#x{ord(sign):x};",
    lambda sign: f"&amp;#0{ord(sign)};",
]


@settings(max_examples=300)
@given(
    st.text("abcXYZ019-_.~:@!$*,", min_size=8, max_size=60),
    st.lists(st.sampled_from(WAYS), min_size=1, max_size=60),
    st.binary(max_size=20),
)
def test_a_secret_is_removed_whatever_way_each_of_its_characters_is_written(
    value: str, ways: list[Callable[[str], str]], around: bytes
) -> None:
    spelled = "".join(ways[at % len(ways)](sign) for at, sign in enumerate(value)).encode()
    scrubber = Scrubber([value])
    scrubbed = scrubber.scrub(around + b" " + spelled + b" " + around)
    assert scrubbed.replaced and spelled not in scrubbed.data
    assert not scrubber.found_in(scrubbed.data)


UNITS = {character: [f"{ord(character):04x}"] for character in map(chr, range(32, 127))}
NAMES = {meant: [name for name, other in html5.items() if other == meant and name.endswith(";")] for meant in UNITS}


@st.composite
def spelled(draw: st.DrawFn, value: str) -> bytes:
    """A value with each character in one of a few ways, and between two what may stand there."""
    pick, number = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)), draw(st.randoms(use_true_random=False))
    junk = draw(st.booleans())

    def written(character: str) -> str:
        code, amp = ord(character), "&" + "amp;" * number.randint(0, 2)
        zeros, end = "0" * number.randint(0, 5), number.choice([";", ""])
        names = NAMES[character]
        return [
            character,
            "\\" * number.randint(1, 8) + f"u{code:04x}",
            "%" + "25" * number.randint(0, 2) + f"{code:02X}",
            f"{amp}#{zeros}{code}{end}"
            if number.random() < 0.5
            else f"{amp}#{number.choice('xX')}{zeros}{code:x}{end}",
            amp + number.choice(names) if names else character,
        ][number.choice(pick)]

    between = [";", "\\", "\\\\;", ""] if junk else [""]
    return "".join(written(character) + number.choice(between) for character in value).encode()


@settings(max_examples=400, deadline=None)
@given(
    st.data(), st.text("".join(UNITS), min_size=8, max_size=40), st.sampled_from([b"", b"%", b"&#", b"\\u00", b"%\r"])
)
def test_whatever_the_expressions_find_is_found(data: st.DataObject, value: str, before: bytes) -> None:
    """What is passed over first never hides what would be found: here each expression is asked of everything."""
    text = before + data.draw(spelled(value)) + b" behind"
    expressions = [redaction._spelled(piece) for piece in redaction._pieces(value)]
    expressions += [redaction._folded(form) for form in redaction._base64_forms(value.encode())]
    expected = [match.span() for expression in expressions for match in expression.finditer(text)]
    found = list(Scrubber([value])._matches(text))
    assert all(any(start <= place[0] and place[1] <= end for start, end in found) for place in expected)


def test_what_begins_like_a_secret_again_and_again_is_looked_at_once() -> None:
    """Each of these has more readings than could ever be tried, when a step of the search could be taken back."""
    token = "3f9c2d1e8b7a6f5049382716a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6"
    whole = "".join(f"\\u{ord(sign):04x}" for sign in token)
    entities = "".join(f"&#{ord(sign)};" for sign in token[:-1])
    backslashes = "".join("\\" * 8 + f"u{ord(sign):04x}" for sign in token[:-1])
    scrubbed = Scrubber([token]).scrub(f"{whole} {entities}! {backslashes}!".encode())
    assert scrubbed.data == f"[REDACTED] {entities}! {backslashes}!".encode()


def test_a_secret_is_no_further_away_behind_a_percent_sign() -> None:
    """What quoted-printable makes of two signs, or of one at the end of a line, does not hide what follows."""
    escaped = "".join(f"%{ord(sign):02x}" for sign in "a-token-of-some-length")
    for before in ("%", "%%%", "%\r", "%\r\n", "&#", "%2", "\\u00"):
        assert Scrubber(["a-token-of-some-length"]).found_in(f"{before}{escaped}".encode()), before


@pytest.mark.parametrize("text", [b"x" * 100, b"&#115;" * 100, b"a-secret-value " * 10])
def test_a_search_that_would_take_longer_than_it_may_says_so(text: bytes) -> None:
    scrubber = Scrubber(["a-secret-value"])
    with pytest.raises(redaction.PatienceOver):
        scrubber.scrub_stream(io.BytesIO(text), io.BytesIO(), redaction.Patience(50))
    with pytest.raises(redaction.PatienceOver):
        scrubber.found_in_stream(io.BytesIO(text), redaction.Patience(50))
    assert scrubber.scrub_stream(io.BytesIO(text), io.BytesIO(), redaction.Patience(100_000)) in (0, 10)


def test_a_long_credential_is_found_escaped_in_each_of_its_parts() -> None:
    value = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4_000))
    spelled = "".join(f"\\u{ord(sign):04x}" for sign in value).encode()
    scrubbed = Scrubber([value]).scrub(b'{"a":"' + spelled + b'"}')
    assert json.loads(scrubbed.data)["a"].replace("[REDACTED]", "") == ""


@given(st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6), st.binary(max_size=20))
def test_any_secret_is_found_in_each_encoding(value: str, around: bytes) -> None:
    scrubber = Scrubber([value])
    plain = value.encode()
    for form in (
        plain,
        json.dumps(value).encode(),
        quote(plain, safe="").encode(),
        base64.b64encode(around + plain),
    ):
        assert scrubber.found_in(around + form + around)
