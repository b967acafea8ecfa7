"""Finding known secrets in bytes and taking them out: exact values only, in the forms they take.

Each value is looked for as it is, JSON-escaped (also twice: agents keep JSON inside JSON), URL-encoded and in base64
at any alignment; a value of several lines also line by line, since logs cut lines apart. Nothing is guessed from
names or shapes. The original is never kept: streams are scrubbed before they are stored.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, quote_plus

MARK = b"[REDACTED]"
# Shorter values would match everywhere: a dummy key "1" once turned reward.json into [REDACTED].
MIN_LENGTH = 6
MIN_LINE = 8
BLOCK = 1024 * 1024


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

    __slots__ = ("_forms", "_longest", "_pattern", "too_short")

    def __init__(self, values: Iterable[str]) -> None:
        distinct = {value for value in values if value.strip()}
        strong = {value for value in distinct if len(value.strip()) >= MIN_LENGTH}
        self.too_short = len(distinct) - len(strong)
        self._forms = tuple(
            sorted({form for value in strong for form in forms(value)}, key=lambda form: (-len(form), form))
        )
        self._longest = len(self._forms[0]) if self._forms else 1
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None

    def __repr__(self) -> str:
        return f"<Scrubber of {len(self._forms)} forms>"

    def found_in(self, data: bytes) -> bool:
        return any(form in data for form in self._forms)

    def scrub(self, data: bytes) -> Scrubbed:
        if self._pattern is None or not self.found_in(data):
            return Scrubbed(data, 0)
        return Scrubbed(*self._pattern.subn(MARK, data))

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
            if self.found_in(tail + block):
                return True
            tail = (tail + block)[-(self._longest - 1) :] if self._longest > 1 else b""
        return False

    def _step(self, buffer: bytes, sink: Sink, *, final: bool) -> tuple[bytes, int]:
        """Writes what is decided; the rest, shorter than the longest form, waits for the next block.

        A match is decided when it begins so early that even the longest form would end inside the buffer.
        """
        decided = len(buffer) if final else max(0, len(buffer) - self._longest + 1)
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

    def _matches(self, buffer: bytes) -> Iterator[tuple[int, int]]:
        if self._pattern is not None and self.found_in(buffer):
            for match in self._pattern.finditer(buffer):
                yield match.span()


def forms(value: str) -> set[bytes]:
    """Every form of one secret value that is looked for; single lines of a long value count as values."""
    stripped = value.strip("\r\n")
    values = {value, stripped, *_lines(stripped)}
    if "\n" in stripped:
        values.add(stripped.replace("\r\n", "\n").replace("\n", "\r\n"))
    found = set().union(*(_encodings(each) for each in values))
    return {form for form in found if len(form) >= MIN_LENGTH}


def _lines(value: str) -> set[str]:
    """The telling lines of a value of several lines; a PEM file's markers are in every PEM file."""
    if "\n" not in value:
        return set()
    lines = {line.strip() for line in value.splitlines()}
    return {line for line in lines if len(line) >= MIN_LINE and not line.startswith("-----")}


def _encodings(value: str) -> set[bytes]:
    plain = value.encode("utf-8", "surrogatepass")
    return {plain} | _json_forms(value) | _url_forms(plain) | _base64_forms(plain)


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
