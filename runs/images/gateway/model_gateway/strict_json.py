"""Is this text JSON that two parsers cannot read differently, and small enough to hold?

Depth and item count are read off the text before anything is built, so a hostile body costs one linear scan.
"""

import json
import re
from typing import Any

# A string that never ends is consumed to the end as well: no position is scanned twice (no quadratic time).
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_STRUCTURE = re.compile(rb"[\[\]{},]")


class NotStrictJson(Exception):
    """`code` is stable: size, depth, items, utf8, duplicate_key, json."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def parse(body: bytes, *, max_bytes: int, max_depth: int, max_items: int) -> Any:
    """Parse UTF-8 JSON text. Raises NotStrictJson on anything another parser might read differently."""
    if len(body) > max_bytes:
        raise NotStrictJson("size")
    _check_shape(body, max_depth, max_items)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise NotStrictJson("utf8") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise NotStrictJson("json") from None
    if "\\u" in text:
        _check_surrogates(value)
    return value


def _check_shape(body: bytes, max_depth: int, max_items: int) -> None:
    depth = 0
    for items, mark in enumerate(_STRUCTURE.finditer(_STRING.sub(b"", body)), start=1):
        if items > max_items:
            raise NotStrictJson("items")
        if mark.group() in b"[{":
            depth += 1
            if depth > max_depth:
                raise NotStrictJson("depth")
        elif mark.group() in b"]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotStrictJson("duplicate_key")
    return value


def _no_constant(name: str) -> Any:
    raise NotStrictJson("json")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NotStrictJson("json")
    return value


def _check_surrogates(value: Any) -> None:
    """A lone surrogate cannot be written as UTF-8; `json` lets it in through an escape."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise NotStrictJson("utf8") from None
