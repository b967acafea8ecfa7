"""Finding known secrets in bytes and taking them out: exact values only, in whatever way they are written.

Each value is looked for as it is, in UTF-16, with any of its characters as JSON's, URLs' or HTML's escapes (mixed, and
escaped again: agents keep JSON inside JSON), and in base64 at any alignment, wrapped or not; a value of several lines
also line by line, since logs cut lines apart. Nothing is guessed from names or shapes. The original is never kept:
streams are scrubbed before they are stored.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from html import unescape
from html.entities import html5
from typing import Protocol
from urllib.parse import quote, quote_plus

MARK = b"[REDACTED]"
# Shorter values would match everywhere: a dummy key "1" once turned reward.json into [REDACTED].
MIN_LENGTH = 6
MIN_LINE = 8
BLOCK = 1024 * 1024
# The longest that one character of a form may become: `&amp;amp;#x000073;` behind what may stand between two.
WIDEST = 32
_BETWEEN = rb"[\\;]{0,8}?"
# JSON's short escapes: the sign behind the backslash.
_SHORT = {'"': b'"', "\\": b"\\", "/": b"/", "\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}
_ENTITY = re.compile(rb"&(?:amp;){0,2}(?:#[0-9xX][0-9a-fA-F]{0,9}|[A-Za-z]{2,12});?")
LONGEST_PIECE = 256
_JUNK = b"\\;="
_WRAP = rb"(?:\\{1,4}[rn]|[\r\n\t ]){0,8}"


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """Bytes without secrets, and how many places were replaced."""

    data: bytes
    replaced: int


class Scrubber:
    """Knows the forms of a set of secret values. Immutable; holds the values, so it is never logged or pickled."""

    __slots__ = ("_based", "_forms", "_patterns", "_plain", "_reach", "too_short")

    def __init__(self, values: Iterable[str]) -> None:
        distinct = {value for value in values if value.strip()}
        strong = {value for value in distinct if len(value.strip()) >= MIN_LENGTH}
        self.too_short = len(distinct) - len(strong)
        values = {way for value in strong for way in _written(value) if len(way) >= MIN_LENGTH}
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        self._forms = tuple(set[bytes]().union(*map(forms, values)))
        self._based = tuple(set[bytes]().union(*map(_base64_forms, encoded)))
        self._plain = {piece: _read_ways(piece) for value in values for piece in _pieces(value)}
        self._reach = WIDEST * max(map(len, self._forms), default=1)
        self._patterns: dict[str | bytes, re.Pattern[bytes]] = {}

    def __repr__(self) -> str:
        return f"<Scrubber of {len(self._forms)} forms>"

    def found_in(self, data: bytes) -> bool:
        return next(self._matches(data), None) is not None

    def scrub(self, data: bytes) -> Scrubbed:
        kept, position, replaced = [], 0, 0
        for start, end in self._matches(data):
            kept.append(data[position:start])
            position, replaced = end, replaced + 1
        return Scrubbed(MARK.join([*kept, data[position:]]), replaced) if replaced else Scrubbed(data, 0)

    def scrub_text(self, text: str) -> str:
        """As `scrub`, for text that goes into a row; lone surrogates survive."""
        return self.scrub(text.encode("utf-8", "surrogatepass")).data.decode("utf-8", "surrogatepass")

    def scrub_stream(self, source: Source, sink: Sink) -> int:
        """Copies `source` to `sink` without secrets, in constant memory; returns the number of replacements."""
        replaced = 0
        buffer = b""
        while block := source.read(BLOCK):
            buffer, count = self._step(buffer + block, sink, final=False)
            replaced += count
        return replaced + self._step(buffer, sink, final=True)[1]

    def found_in_stream(self, source: Source) -> bool:
        tail = b""
        while block := source.read(BLOCK):
            tail += block
            if self.found_in(tail):
                return True
            tail = tail[max(0, len(tail) - self._reach) :]
        return False

    def _step(self, buffer: bytes, sink: Sink, *, final: bool) -> tuple[bytes, int]:
        """Writes what is decided; the rest, shorter than the longest way to write a form, waits for the next block.

        A match is decided when it begins so early that even the longest one would end inside the buffer.
        """
        decided = len(buffer) if final else max(0, len(buffer) - self._reach)
        replaced = position = 0
        for start, end in self._matches(buffer):
            if start >= decided:
                break
            sink.write(buffer[position:start])
            sink.write(MARK)
            position = end
            replaced += 1
        end = max(position, decided)
        sink.write(buffer[position:end])
        return buffer[end:], replaced

    def _matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The places of all secrets, in order; those that overlap are one."""
        found = [place for form in self._forms if form in data for place in _places(form, data)]
        found += [match.span() for pattern in self._suspected(data) for match in pattern.finditer(data)]
        last: tuple[int, int] | None = None
        for start, end in sorted(found):
            if last is not None and start >= last[1]:
                yield last
                last = None
            last = (start, end) if last is None else (last[0], max(last[1], end))
        if last is not None:
            yield last

    def _suspected(self, data: bytes) -> Iterator[re.Pattern[bytes]]:
        """Expressions, which are slow, for what may be in `data` in a spelling that is none of the forms."""
        unfolded, unescaped = _unfolded(data), b""
        if any(sign in data for sign in (b"%", b"&", b"\\")):
            unescaped = _unescaped(data)
            for value, ways in self._plain.items():
                if any(way in unescaped for way in ways):
                    yield self._pattern(value, _spelled)
        for form in self._based:
            # Of the signs of base64 only two are ever escaped.
            if form in unfolded or (unescaped and (b"+" in form or b"/" in form) and form in unescaped):
                yield self._pattern(form, _folded)

    def _pattern[T: (str, bytes)](self, text: T, expression: Callable[[T], re.Pattern[bytes]]) -> re.Pattern[bytes]:
        if text not in self._patterns:
            self._patterns[text] = expression(text)
        return self._patterns[text]


def forms(value: str) -> set[bytes]:
    """The forms of one text in which it is looked for first: cheap to find, and most that there are."""
    return {form for form in _encodings(value) if len(form) >= MIN_LENGTH}


def _written(value: str) -> set[str]:
    """The value as it may stand in a file; single lines of a long value count as values."""
    stripped = value.strip("\r\n")
    values = {value, stripped, *_lines(stripped)}
    if "\n" in stripped:
        values.add(stripped.replace("\r\n", "\n").replace("\n", "\r\n"))
    return values


def _lines(value: str) -> set[str]:
    """The telling lines of a value of several lines; a PEM file's markers are in every PEM file."""
    if "\n" not in value:
        return set()
    lines = {line.strip() for line in value.splitlines()}
    return {line for line in lines if len(line) >= MIN_LINE and not line.startswith("-----")}


def _encodings(value: str) -> set[bytes]:
    plain = value.encode("utf-8", "surrogatepass")
    wide = {value.encode(f"utf-16-{order}", "surrogatepass") for order in ("le", "be")}
    return {plain} | wide | _json_forms(value) | _url_forms(plain) | _base64_forms(plain)


def _json_forms(value: str) -> set[bytes]:
    once = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    once |= {text.replace("/", "\\/") for text in once}
    twice = {json.dumps(text, ensure_ascii=False)[1:-1] for text in once}
    return {text.encode("utf-8", "surrogatepass") for text in once | twice}


def _url_forms(plain: bytes) -> set[bytes]:
    upper = {quote(plain, safe=""), quote(plain, safe="/"), quote(plain, safe=":/@"), quote_plus(plain)}
    lower = {re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), text) for text in upper}
    return {text.encode("ascii") for text in upper | lower}


def _base64_forms(plain: bytes) -> set[bytes]:
    """The value on its own, and the part of it that is the same whatever stands before and behind it."""
    found = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        found.add(encode(plain).rstrip(b"="))
        for shift in range(3):
            whole = encode(b"\0" * shift + plain)
            start = (shift * 8 + 5) // 6
            end = (shift + len(plain)) * 8 // 6
            found.add(whole[start:end])
    return {form for form in found if len(form) >= MIN_LENGTH}


def _pieces(value: str) -> Iterator[str]:
    """The value, or parts of a long one: an expression for thousands of characters takes seconds to make."""
    for start in range(0, max(1, len(value) - MIN_LENGTH), LONGEST_PIECE):
        end = start + LONGEST_PIECE
        yield value[start : end if len(value) - end >= MIN_LENGTH else None]


def _read_ways(value: str) -> set[bytes]:
    """What `_unescaped` makes of the value, whether or not what looks like an escape in it was escaped itself."""
    encoded = (value.encode("utf-8", "surrogatepass"), value.encode("latin-1", "replace"))
    return {way for data in encoded for way in (_unescaped(data), data.translate(None, _JUNK))} - {b""}


def _unfolded(data: bytes) -> bytes:
    """Without white space and line ends, also those that JSON escapes: base64 is folded at any width."""
    for end in (b"\\r", b"\\n"):
        data = data.replace(end, b"")
    return data.translate(None, b"\r\n\t \\")


def _unescaped(data: bytes) -> bytes:
    """With escapes of ASCII characters read, and without what may stand between them. Mostly whole passes in C, since
    an agent may fill megabytes with escapes.
    """
    data = data.replace(b"=", b"")  # it begins what is read last
    if b"&" in data:
        data = _ENTITY.sub(lambda match: _meant(match[0]), data)
    data = data.replace(b"%25", b"%").replace(b"%25", b"%").replace(b"%", b"=").replace(b"\\u00", b"=")
    return binascii.a2b_qp(data).translate(None, _JUNK)


@lru_cache(10_000)
def _meant(entity: bytes) -> bytes:
    return unescape(unescape(unescape(entity.decode()))).encode("utf-8", "replace")


@cache
def _named(character: str) -> tuple[bytes, ...]:
    """HTML's names of a character."""
    return tuple(f"&{name}".encode() for name, meant in html5.items() if meant == character and name.endswith(";"))


def _spelled(value: str) -> re.Pattern[bytes]:
    """Every way to write a value, its characters escaped or not."""
    return re.compile(_BETWEEN.join(map(_spellings, value)))


def _folded(form: bytes) -> re.Pattern[bytes]:
    """A base64 form, folded or not."""
    return re.compile(_WRAP.join(_spellings(sign) if sign in "+/" else sign.encode() for sign in form.decode()))


def _places(form: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    start = data.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = data.find(form, start + len(form))


@cache
def _spellings(character: str) -> bytes:
    """An expression for one character: as it is, or escaped for JSON, a URL or HTML, perhaps more than once. Each
    alternative begins with a fixed byte, or the search would be ten times slower."""
    plain = character.encode("utf-8", "surrogatepass")
    ways = [
        b"".join(rb"\\\\{0,7}u%b" % _either_case(unit.hex()) for unit in _units(character)),
        b"".join(rb"%%(?:25){0,2}%b" % _either_case(f"{byte:02x}") for byte in plain),
        rb"&(?:amp;){0,2}#0{0,5}%d;?" % ord(character),
        rb"&(?:amp;){0,2}#[xX]0{0,5}%b;?" % _either_case(f"{ord(character):x}"),
        *(b"&(?:amp;){0,2}" + re.escape(name[1:]) for name in _named(character)),
    ]
    if character in _SHORT:
        ways.append(rb"\\\\{0,7}" + re.escape(_SHORT[character]))
    if character == " ":
        ways.append(rb"\+")
    ways.append(re.escape(plain))  # last: a letter u begins many an escape
    return b"(?:" + b"|".join(ways) + b")"


def _units(character: str) -> list[bytes]:
    """The UTF-16 code units, as JSON escapes them."""
    wide = character.encode("utf-16-be", "surrogatepass")
    return [wide[at : at + 2] for at in range(0, len(wide), 2)]


def _either_case(digits: str) -> bytes:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits).encode()
