"""Finding known secrets in bytes and taking them out: exact values only, in whatever way they are written.

Each value is looked for as it is, in UTF-16, with any of its characters as JSON's, URLs' or HTML's escapes (mixed, and
escaped again: agents keep JSON inside JSON), and in base64 at any alignment, wrapped or not; a value of several lines
also line by line, since logs cut lines apart. Nothing is guessed from names or shapes. The original is never kept:
streams are scrubbed before they are stored.

What is searched was written by those who may want the search to take long, and an agent knows a secret: its own token.
So no step costs more than its bytes do. First come whole passes in C that show that most data hold no spelling; only
what may hold one is looked at closely, with expressions that never go back; and a `Patience` bounds the whole.
"""

import base64
import binascii
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
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
# What may stand between two characters and is no part of them.
_JUNK = b"\\;"
_ESCAPED_JUNK = (
    rb"(?<=\\)u00(?:5[cC]|3[bB])|%(?:25){0,2}(?:5[cC]|3[bB])"
    rb"|&(?:amp;){0,2}(?:#0{0,5}(?:92|59)|#[xX]0{0,5}(?:5[cC]|3[bB])|bsol|semi)"
)
_GONE = b"\\;=\r\n"
# JSON's short escapes: the sign behind the backslash.
_SHORT = {'"': b'"', "\\": b"\\", "/": b"/", "\b": b"b", "\f": b"f", "\n": b"n", "\r": b"r", "\t": b"t"}
_SIGNS = (b"%", b"&", b"\\")
LONGEST_PIECE = 256
_WRAP = rb"(?:\\{1,4}[rn]|[\r\n\t ]){0,8}+"
_CLOSELY = 16 * 1024
# What these cost beside a byte that is passed over: each sign that is read, a byte that is looked at closely, a place.
_SIGN, _CLOSELY_SEEN, _PLACE = 20, 16, 300


class PatienceOver(Exception):
    """The search would take longer than it may."""


@dataclass(slots=True)
class Patience:
    """How much a search may still cost, in bytes that are passed over once."""

    left: int

    def spend(self, work: int) -> None:
        """Raises PatienceOver, now and whenever it is asked again."""
        self.left -= work
        if self.left < 0:
            raise PatienceOver


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
    """Knows the forms of a set of secret values. Immutable; holds the values, so it is never logged or pickled.

    A search with a `patience` raises PatienceOver.
    """

    __slots__ = (
        "_based",
        "_escaped",
        "_forms",
        "_named",
        "_odd",
        "_patterns",
        "_plain",
        "_reach",
        "_run",
        "_wide",
        "too_short",
    )

    def __init__(self, values: Iterable[str]) -> None:
        distinct = {value for value in values if value.strip()}
        strong = {value for value in distinct if len(value.strip()) >= MIN_LENGTH}
        self.too_short = len(distinct) - len(strong)
        values = {way for value in strong for way in _written(value) if len(way) >= MIN_LENGTH}
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        every = set[bytes]().union(*map(forms, values))
        self._wide = tuple((form.replace(b"\0", b""), form) for form in every if b"\0" in form)
        narrow = [form for form in every if b"\0" not in form]
        self._forms = tuple(form for form in narrow if not any(sign in form for sign in _SIGNS))
        self._escaped = tuple(form for form in narrow if any(sign in form for sign in _SIGNS))
        pieces = {piece for value in values for piece in _pieces(value)}
        self._odd = tuple(filter(_is_odd, pieces))
        plain = pieces.difference(self._odd)
        self._named = tuple(_named_entities(plain))
        self._plain = tuple((piece, self._way(piece)) for piece in plain)
        self._based = tuple(
            (form, self._way(form.decode())) for form in set[bytes]().union(*map(_base64_forms, encoded))
        )
        self._reach = WIDEST * max(map(len, every), default=1)
        # However such a value is spelled, it stands in a row of printable characters that is longer than itself.
        self._run = b"p" * (min(map(len, plain), default=0) + 1)
        self._patterns: dict[str | bytes, re.Pattern[bytes]] = {}

    def __repr__(self) -> str:
        return f"<Scrubber of {len(self._forms) + len(self._escaped) + len(self._wide)} forms>"

    def found_in(self, data: bytes, patience: Patience | None = None) -> bool:
        return next(self._matches(data, patience), None) is not None

    def scrub(self, data: bytes) -> Scrubbed:
        kept, position, replaced = [], 0, 0
        for start, end in self._matches(data):
            kept.append(data[position:start])
            position, replaced = end, replaced + 1
        return Scrubbed(MARK.join([*kept, data[position:]]), replaced) if replaced else Scrubbed(data, 0)

    def scrub_text(self, text: str) -> str:
        """As `scrub`, for text that goes into a row; lone surrogates survive."""
        return self.scrub(text.encode("utf-8", "surrogatepass")).data.decode("utf-8", "surrogatepass")

    def scrub_stream(self, source: Source, sink: Sink, patience: Patience | None = None) -> int:
        """Copies `source` to `sink` without secrets, in constant memory; returns the number of replacements."""
        replaced = 0
        buffer = b""
        while block := source.read(BLOCK):
            buffer, count = self._step(buffer + block, sink, patience, final=False)
            replaced += count
        return replaced + self._step(buffer, sink, patience, final=True)[1]

    def found_in_stream(self, source: Source, patience: Patience | None = None) -> bool:
        tail = b""
        while block := source.read(BLOCK):
            tail += block
            if self.found_in(tail, patience):
                return True
            tail = tail[max(0, len(tail) - self._reach) :]
        return False

    def _step(self, buffer: bytes, sink: Sink, patience: Patience | None, *, final: bool) -> tuple[bytes, int]:
        """Writes what is decided; the rest, shorter than the longest way to write a form, waits for the next block.

        A match is decided when it begins so early that even the longest one would end inside the buffer.
        """
        decided = len(buffer) if final else max(0, len(buffer) - self._reach)
        replaced = position = 0
        for start, end in self._matches(buffer, patience):
            if start >= decided:
                break
            sink.write(buffer[position:start])
            sink.write(MARK)
            position = end
            replaced += 1
        end = max(position, decided)
        sink.write(buffer[position:end])
        return buffer[end:], replaced

    def _matches(self, data: bytes, patience: Patience | None = None) -> Iterator[tuple[int, int]]:
        """The places of all secrets, in order; those that overlap are one."""
        signs = any(sign in data for sign in _SIGNS)
        patience = patience or Patience(sys.maxsize)
        patience.spend(len(data))
        looked_for = [*self._forms, *(self._escaped if signs else ()), *self._wide_in(data)]
        found = [place for form in looked_for if form in data for place in _places(form, data, patience)]
        if self._suspected(data, patience):
            found += self._close(data, patience)
        last: tuple[int, int] | None = None
        for start, end in sorted(found):
            if last is not None and start >= last[1]:
                yield last
                last = None
            last = (start, end) if last is None else (last[0], max(last[1], end))
        if last is not None:
            yield last

    def _wide_in(self, data: bytes) -> list[bytes]:
        """Of the forms in UTF-16, which take long to find among zeros, those that may be there."""
        narrow = data.translate(None, b"\0") if b"\0" in data else b""
        return [wide for plain, wide in self._wide if plain in narrow] if narrow else []

    def _close(self, data: bytes, patience: Patience) -> Iterator[tuple[int, int]]:
        """The places of what is in none of the forms. The expressions are slow, so they only see where one may be."""
        size = max(_CLOSELY, 4 * self._reach)
        for start in range(0, max(1, len(data) - self._reach), size - self._reach):
            end = start + size
            for pattern in self._suspected(data[start:end], patience):
                patience.spend(min(size, len(data)) * _CLOSELY_SEEN)
                for match in pattern.finditer(data, start, end):
                    patience.spend(_PLACE)
                    yield match.span()

    def _suspected(self, data: bytes, patience: Patience) -> list[re.Pattern[bytes]]:
        """Expressions for what may be in `data` in a spelling that is none of the forms."""
        found, unfolded, read = [], _unfolded(data), b""
        if any(sign in data for sign in _SIGNS):
            found = [self._pattern(value, _spelled) for value in self._odd]
            if self._run in data.translate(_PRINTABLE):
                patience.spend(len(data) + _SIGN * sum(map(data.count, _SIGNS)))
                read = self._read(data)
                found += [self._pattern(value, _spelled) for value, way in self._plain if way in read]
        for form, way in self._based:
            # Of the signs of base64 only two are ever escaped.
            if form in unfolded or (read and (b"+" in form or b"/" in form) and way in read):
                found.append(self._pattern(form, _folded))
        return found

    def _pattern[T: (str, bytes)](self, text: T, expression: Callable[[T], re.Pattern[bytes]]) -> re.Pattern[bytes]:
        if text not in self._patterns:
            self._patterns[text] = expression(text)
        return self._patterns[text]

    def _way(self, value: str) -> bytes:
        """What `_read` makes of the value, but for its first characters: what stands before it may take those away."""
        return self._read(value.encode())[3:]

    def _read(self, data: bytes) -> bytes:
        """With escapes read, in `_ALIKE` characters, and without what may stand between them: whatever spells a value
        reads as the value does. Whole passes in C, since an agent may fill megabytes with escapes. An escape becomes
        what quoted-printable calls one, `=73`; `=` itself and the ends of lines, which mean something there, go first.
        """
        data = data.translate(None, b"=\r\n")
        if b"&" in data:
            data = data.replace(b"&amp;", b"&").replace(b"&amp;", b"&")
            if b"&#" in data:
                data = data.replace(b"&#X", b"&#x")
                for zeros in (b"0000", b"00", b"0"):
                    data = data.replace(b"&#x" + zeros, b"&#x").replace(b"&#" + zeros, b"&#")
            for entity, meant in self._named:
                data = data.replace(entity, meant)
            # `&#115` becomes 15 and `&#48` becomes 48, as if these were hexadecimal: `_ALIKE` makes up for it.
            data = data.replace(b"&#x", b"=").replace(b"&#1", b"=").replace(b"&#", b"=")
        data = data.replace(b"%25", b"%").replace(b"%25", b"%").replace(b"%", b"=").replace(b"\\u00", b"=")
        data = data.replace(b"==", b"=;=").replace(b"==", b"=;=")  # two of them would count as one
        return binascii.a2b_qp(data).translate(_ALIKE, _GONE)


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


def _unfolded(data: bytes) -> bytes:
    """Without white space and line ends, also those that JSON escapes: base64 is folded at any width."""
    for end in (b"\\r", b"\\n"):
        data = data.replace(end, b"")
    return data.translate(None, b"\r\n\t \\")


def _alike() -> bytes:
    """A table that gives characters that `_read` may mistake for each other the same byte: a printable one, and the
    byte whose hexadecimal digits are the last two of its decimal number. Forty kinds of characters are left."""
    kind = list(range(256))
    for code in range(32, 127):
        one, other = kind[code], kind[int(str(code)[-2:], 16)]
        kind = [one if each == other else each for each in kind]
    return bytes(kind)


_ALIKE = _alike()
_PRINTABLE = bytes(ord("p") if 32 <= code < 127 or code in b"\r\n\t" else 0 for code in range(256))


def _named_entities(values: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    """The entities of characters of these values that `_read` cannot read as it reads others, with what it makes of
    them: those with a name, and that of `=`, which it takes out."""
    for character in sorted(set[str]().union(*values)):
        meant = character.encode().replace(b"=", b"")
        yield from ((name, meant) for name in _named(character))
    yield b"&#61", b""


def _is_odd(value: str) -> bool:
    """Whether what a value is read as would depend on what stands around it: it is very short, not ASCII, or holds what
    may be taken for a part of an escape."""
    told = len(value.replace("=", "")) >= MIN_LENGTH + 3 and value.isascii() and value.isprintable()
    return not told or any(sign in value for sign in "%&\\;")


@cache
def _named(character: str) -> tuple[bytes, ...]:
    """HTML's names of a character."""
    return tuple(f"&{name}".encode() for name, meant in html5.items() if meant == character and name.endswith(";"))


def _spelled(value: str) -> re.Pattern[bytes]:
    """Every way to write a value, its characters escaped or not.

    Whoever knows the value can write what begins like it in ways without number, so no step is ever taken back: what
    stands between two characters is taken whole, with those of the value that may stand between any two.
    """
    parts = re.findall(r"([\\;]*)([^\\;])", value)
    junk = [len(before) for before, _ in parts]
    signs = [sign for _, sign in parts]
    if not signs:
        return re.compile(re.escape(value.encode()))
    ways = [] if junk[0] else [_spellings(signs[0])]
    for at in range(len(ways), len(signs)):
        ways += [
            _between(junk[at], least=junk[at] if at else 0),
            _spellings_behind(signs[at], last=at == len(signs) - 1),
        ]
    trailing = len(value) - sum(junk) - len(signs)
    return re.compile(b"".join(ways) + (_between(trailing, least=0) if trailing else b""))


def _between(junk: int, *, least: int) -> bytes:
    """What stands between two characters of a value which has so many there that may stand between any two."""
    if not junk:
        return rb"[\\;]{0,17}+"
    return rb"(?:[\\;]|%b){%d,%d}+" % (_ESCAPED_JUNK, least, 17 * junk + 17)


def _folded(form: bytes) -> re.Pattern[bytes]:
    """A base64 form, folded or not."""
    return re.compile(_WRAP.join(_spellings(sign) if sign in "+/" else sign.encode() for sign in form.decode()))


def _places(form: bytes, data: bytes, patience: Patience) -> Iterator[tuple[int, int]]:
    start = data.find(form)
    while start >= 0:
        patience.spend(_PLACE)
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


@cache
def _spellings_behind(character: str, *, last: bool) -> bytes:
    """As `_spellings`, of a character behind what may stand between two; its first backslashes and, unless it is the
    last one, the end of its entity are among that."""
    end = b";?" if last else b""
    plain = character.encode("utf-8", "surrogatepass")
    first, *more = [_either_case(unit.hex()) for unit in _units(character)]
    ways = [
        rb"(?<=\\)u" + first + b"".join(rb"\\{1,8}+u" + unit for unit in more),
        b"".join(rb"%%(?:25){0,2}%b" % _either_case(f"{byte:02x}") for byte in plain),
        rb"&(?:amp;){0,2}#0{0,5}%d%b" % (ord(character), end),
        rb"&(?:amp;){0,2}#[xX]0{0,5}%b%b" % (_either_case(f"{ord(character):x}"), end),
        *(b"&(?:amp;){0,2}" + re.escape(name[1:]) for name in _named(character)),
    ]
    if character in _SHORT:
        ways.append(rb"(?<=\\)" + re.escape(_SHORT[character]))
    if character == " ":
        ways.append(rb"\+")
    ways.append(re.escape(plain))
    return b"(?:" + b"|".join(ways) + b")"


def _units(character: str) -> list[bytes]:
    """The UTF-16 code units, as JSON escapes them."""
    wide = character.encode("utf-16-be", "surrogatepass")
    return [wide[at : at + 2] for at in range(0, len(wide), 2)]


def _either_case(digits: str) -> bytes:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits).encode()
