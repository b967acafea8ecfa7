"""Reads JSON of unknown origin strictly: one bounded value that no other reader can take for something else.

Harbor's own reader takes the last of two equal keys, NaN, UTF-16 and a byte order mark; this one refuses them by name.
It needs only the standard library of Python 3.11: the gateway's image and the harness environment hold this very file.
"""

import json
import math
from typing import Any, Union

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 12
MAX_ITEMS = 4096
MAX_NUMBER_LENGTH = 4300  # what Python itself makes an integer of: longer ones cost quadratic time

Json = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]
Place = tuple[str | int, ...]

_BLANKS = b" \t\n\r"
_STRUCTURE = b"[]{},:"
_SKELETON = bytes(byte if byte in _STRUCTURE else ord("0") for byte in range(256))


class JsonProblem(ValueError):
    """Bytes that are not one clean JSON value. `code` is stable: see `load`.

    `places` has every value that is refused by itself, `(place, code)`, as far as the whole could be parsed.
    """

    def __init__(self, code: str, detail: str = "", places: tuple[tuple[Place, str], ...] = ()) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.places = places


def load(
    data: bytes,
    *,
    size: int = MAX_BYTES,
    depth: int = MAX_DEPTH,
    items: int = MAX_ITEMS,
    count_keys: bool = True,
    storable: bool = False,
) -> Json:
    """One JSON value of at most `size` bytes, `depth` levels and `items` values, itself and its keys included.

    Bounds are looked at before anything is built, so what breaks them costs one pass over the bytes. `storable`
    refuses in addition what a database cannot keep: NUL in a text and integers beyond 64 bits.

    Raises JsonProblem with code `size`, `byte_order_mark`, `encoding` (not UTF-8), `depth`, `items`, `syntax`,
    `duplicate_key`, `nonfinite`, `number` (too long), `integer` (beyond 64 bits), `surrogate` or `nul`.
    """
    if len(data) > size:
        raise JsonProblem("size", f"{len(data):,} bytes")
    if data.startswith(b"\xef\xbb\xbf"):
        raise JsonProblem("byte_order_mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonProblem("encoding", f"byte {error.start}") from None
    _check_bounds(data, depth, items, count_keys)
    parsing = _Parsing(storable)
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=parsing.members,
            parse_constant=parsing.constant,
            parse_float=parsing.fraction,
            parse_int=parsing.integer,
        )
    except json.JSONDecodeError as error:
        code = parsing.refused[0] if parsing.refused else "syntax"
        raise JsonProblem(code, f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonProblem("depth", str(depth)) from None
    # Only an escape can bring in what no text may hold.
    if parsing.refused or ("\\u" in text and (storable or not _can_be_written(value))):
        places = tuple(_refused_places(value, storable))
        if places:
            raise JsonProblem(parsing.refused[0] if parsing.refused else places[0][1], places=places)
    return value


def load_object(
    data: bytes, *, size: int = MAX_BYTES, depth: int = MAX_DEPTH, items: int = MAX_ITEMS
) -> dict[str, Any]:
    """As `load`, and the value must be an object (code `not_object`)."""
    value = load(data, size=size, depth=depth, items=items)
    if not isinstance(value, dict):
        raise JsonProblem("not_object", type(value).__name__)
    return value


def _check_bounds(data: bytes, depth: int, items: int, count_keys: bool) -> None:
    """Raises JsonProblem `depth` or `items`. Exact for JSON, and never too low for what stands before an error."""
    opened = data.count(b"[") + data.count(b"{")
    if opened <= depth and opened + data.count(b",") + data.count(b":") < items:
        return  # whichever of them stand in strings: a small document is not looked through
    # Without its escapes a string ends at the next quote, so every other piece stands between strings.
    most_strings = items if count_keys else 2 * items
    pieces = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 2 * most_strings + 2)
    # With more strings there are more items, whatever comes after.
    skeleton = b"0".join(pieces[: 2 * most_strings + 2 : 2]).translate(_SKELETON, _BLANKS)
    if len(pieces) % 2 == 0:
        skeleton += b"0"  # a string that never ends
    level = 0
    # A document within its items has no more brackets than this.
    for bracket in skeleton.translate(None, b"0,:")[: 2 * items + 2]:
        level += 1 if bracket in b"[{" else -1
        if level > depth:
            raise JsonProblem("depth", str(depth))
    # The first value of each container that is not empty, and one more after each comma.
    found = 1 + sum(skeleton.count(mark) for mark in (b"[", b"{", b","))
    found -= skeleton.count(b"[]") + skeleton.count(b"{}")
    if count_keys:
        found += skeleton.count(b":")
    if found > items:
        raise JsonProblem("items", str(items))


class _Refused:
    """Stands in the parsed value where a value was refused."""

    def __init__(self, code: str) -> None:
        self.code = code


class _Parsing:
    """The hooks of the standard library's parser. `refused` has the codes in the order of the text."""

    def __init__(self, storable: bool) -> None:
        self.refused: list[str] = []
        self._storable = storable

    def refuse(self, code: str) -> Any:
        self.refused.append(code)
        return _Refused(code)

    def members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    found[key] = self.refuse("duplicate_key")
                seen.add(key)
        return found

    def constant(self, _word: str) -> Any:
        return self.refuse("nonfinite")

    def fraction(self, text: str) -> Any:
        if len(text) > MAX_NUMBER_LENGTH:
            return self.refuse("number")
        value = float(text)
        return value if math.isfinite(value) else self.refuse("nonfinite")

    def integer(self, digits: str) -> Any:
        if self._storable:
            value = int(digits) if len(digits) <= 20 else 2**64
            return value if value.bit_length() < 64 else self.refuse("integer")
        return int(digits) if len(digits.lstrip("-")) <= MAX_NUMBER_LENGTH else self.refuse("number")


def _can_be_written(value: Json) -> bool:
    """Whether no text holds half a surrogate pair. Written out at once, which is faster than a walk."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refused_places(value: Any, storable: bool) -> list[tuple[Place, str]]:
    found: list[tuple[Place, str]] = []
    pending: list[tuple[Place, Any]] = [((), value)]
    while pending:
        place, here = pending.pop()
        if isinstance(here, _Refused):
            found.append((place, here.code))
        elif isinstance(here, dict):
            found.extend(((*place, key), code) for key in here if (code := _text_problem(key, storable)))
            pending.extend(((*place, key), below) for key, below in here.items())
        elif isinstance(here, list):
            pending.extend(((*place, index), below) for index, below in enumerate(here))
        elif isinstance(here, str) and (code := _text_problem(here, storable)):
            found.append((place, code))
    return found


def _text_problem(text: str, storable: bool) -> str:
    if storable and "\0" in text:
        return "nul"
    return "" if _can_be_written(text) else "surrogate"
