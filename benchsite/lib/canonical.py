"""JSON documents that people write: strict loading, canonical form, hashes."""

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

from benchsite.lib import strict_json
from benchsite.lib.problems import DocumentError, Problem, path_of, refuse
from benchsite.lib.strict_json import MAX_DEPTH, JsonProblem
from benchsite.lib.strict_json import Json as Json

type JsonObject = dict[str, Json]

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_ITEMS = 4_096

_OF_DOCUMENT = {
    "size": ("json.too_large", "the document has {detail}; at most {most:,} are read"),
    "byte_order_mark": ("json.byte_order_mark", "the document begins with a byte order mark; save it without one"),
    "encoding": ("json.not_utf8", "the document is not UTF-8 at {detail}"),
    "syntax": ("json.syntax", "the document is not JSON: {detail}"),
    "depth": ("json.too_deep", f"the document is nested deeper than {MAX_DEPTH} levels"),
    "items": ("json.too_many_items", f"the document has more than {MAX_ITEMS:,} members and elements"),
}
_OF_VALUE = {
    "duplicate_key": ("json.duplicate_key", "the key stands more than once in its object"),
    "nonfinite": ("json.not_finite", "NaN, infinities and numbers that overflow are not JSON"),
    "integer": ("json.integer_too_large", "the integer does not fit 64 bits"),
    "number": ("json.number_too_long", "the number has too many digits"),
    "surrogate": ("json.bad_text", "the text holds half a surrogate pair"),
    "nul": ("json.bad_text", "the text holds a NUL"),
}


def canonical_bytes(value: Json) -> bytes:
    """Sorted keys, `,` and `:`, ASCII escapes, UTF-8. Equal bytes if and only if equal documents; 1 is not 1.0.

    Raises DocumentError for anything that is not JSON: NaN, infinities, other types, keys that are no strings.
    """
    _require_json(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def sha256(data: bytes) -> str:
    """Lower-case hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def canonical_sha256(value: Json) -> str:
    """The identity of a document: SHA-256 of its canonical form."""
    return sha256(canonical_bytes(value))


def content_sha256(document: JsonObject, own_field: str = "content_sha256") -> str:
    """The identity of a document that carries its own hash: over the canonical form without that field."""
    return canonical_sha256({key: value for key, value in document.items() if key != own_field})


def load_json(data: bytes, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> Json:
    """Parse strictly; raises DocumentError with all `json.*` problems that were found.

    Refused: more than `max_bytes`, byte order mark, bad UTF-8, bad syntax, duplicate keys, NaN and infinities
    (written out or by overflow), integers over 64 bits, text that cannot be stored (lone surrogates, NUL),
    more than 12 levels, more than 4,096 members and elements.
    """
    try:
        # The document itself is no element.
        return strict_json.load(data, size=max_bytes, items=MAX_ITEMS + 1, count_keys=False, storable=True)
    except JsonProblem as problem:
        if problem.places:
            raise DocumentError(Problem(path_of(at), *_OF_VALUE[code]) for at, code in problem.places) from problem
        code, sentence = _OF_DOCUMENT.get(problem.code, _OF_DOCUMENT["syntax"])
        path = _too_deep_at(data) if problem.code == "depth" else ""
        raise refuse(code, sentence.format(detail=problem.detail, most=max_bytes), path) from problem


def load_object(data: bytes, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> JsonObject:
    """`load_json`, and the document is an object."""
    value = load_json(data, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise refuse("json.not_an_object", "the document is not a JSON object")
    return value


def stored_object(text: str) -> dict[str, Any]:
    """The object in a text that a row holds; empty where it is none, since a page must still say what it can."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def walk(value: Json) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Every value with its location, the document itself first, without recursion."""
    pending: list[tuple[tuple[str | int, ...], Json]] = [((), value)]
    while pending:
        location, found = pending.pop()
        yield location, found
        if isinstance(found, dict):
            pending.extend(((*location, key), below) for key, below in reversed(found.items()))
        elif isinstance(found, list):
            pending.extend(((*location, index), found[index]) for index in reversed(range(len(found))))


def _too_deep_at(data: bytes) -> str:
    """The path of the first value that is too deep; empty when it is deeper than anything can be parsed."""
    try:
        value: Json = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return ""
    places = (at for at, found in walk(value) if len(at) == MAX_DEPTH and isinstance(found, (dict, list)))
    return path_of(next(places, ()))


def as_object(value: Json) -> JsonObject:
    """The value if it is an object, else an empty one: for rules that leave wrong types to the model."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def _require_json(value: object) -> None:
    pending = [value]
    while pending:
        found = pending.pop()
        if type(found) is dict:
            if any(type(key) is not str for key in found):
                raise refuse("json.not_json", "a key of an object is not a string")
            pending.extend(found.values())
        elif type(found) is list:
            pending.extend(found)
        elif type(found) is float and not math.isfinite(found):
            raise refuse("json.not_finite", "NaN and infinities are not JSON")
        elif found is not None and type(found) not in (bool, int, float, str):
            raise refuse("json.not_json", f"a value of type {type(found).__name__} is not JSON")
