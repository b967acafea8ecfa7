"""Is this exactly one JSON value, and does it say only one thing?

Harbor's own reader takes the last of two duplicate keys, NaN, and a BOM; this one refuses them by name.
"""

import json
import math
import re
from typing import Any

MAX_DEPTH = 12
MAX_ITEMS = 4096

_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_OPENING = (b"[", b"{")
_CLOSING = (b"]", b"}")

type Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class JsonProblem(ValueError):
    """Bytes that are not one clean JSON value. `code` is stable: see `load`."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


def load(data: bytes, *, depth: int = MAX_DEPTH, items: int = MAX_ITEMS, lone_surrogates: bool = False) -> Json:
    """One JSON value of bounded depth and size.

    Raises JsonProblem with code `encoding` (not UTF-8, or a BOM), `depth`, `items`, `duplicate_key`,
    `nonfinite`, `surrogate` or `syntax`.
    """
    text = _decode(data)
    check_depth(data, depth)
    try:
        value: Json = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
    except JsonProblem:
        raise
    except (ValueError, RecursionError) as error:
        raise JsonProblem("syntax", type(error).__name__) from None
    _check_items(value, items, lone_surrogates)
    return value


def load_object(data: bytes, *, depth: int = MAX_DEPTH, items: int = MAX_ITEMS) -> dict[str, Any]:
    """As `load`, and the value must be an object (code `not_object`)."""
    value = load(data, depth=depth, items=items)
    if not isinstance(value, dict):
        raise JsonProblem("not_object", type(value).__name__)
    return value


def check_depth(data: bytes, limit: int) -> None:
    """Raises JsonProblem `depth` when brackets nest deeper than `limit`; brackets in strings do not count."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        token = match[0]
        if token in _OPENING:
            depth += 1
            if depth > limit:
                raise JsonProblem("depth", str(limit))
        elif token in _CLOSING:
            depth -= 1


def _decode(data: bytes) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise JsonProblem("encoding", "byte order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonProblem("encoding", "not UTF-8") from None


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonProblem("duplicate_key")
    return found


def _refuse_constant(word: str) -> Json:
    raise JsonProblem("nonfinite", word)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonProblem("nonfinite", "overflow")
    return value


def _check_items(value: Json, items: int, lone_surrogates: bool) -> None:
    pending: list[Json] = [value]
    count = 0
    while pending:
        here = pending.pop()
        count += 1
        if count > items:
            raise JsonProblem("items", str(items))
        match here:
            case dict():
                pending.extend(here.keys())
                pending.extend(here.values())
            case list():
                pending.extend(here)
            case str() if not lone_surrogates and not _encodable(here):
                raise JsonProblem("surrogate")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
