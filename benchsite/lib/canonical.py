"""How is a JSON document loaded, and what is its identity? Strict loading, canonical form, hashes (design 6, 7)."""

import hashlib
import json
import math
from collections.abc import Iterator
from typing import cast

from benchsite.lib.problems import Problem, path_of, raise_if, refuse

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
type JsonObject = dict[str, Json]

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_ITEMS = 4_096
_INTEGER_BITS = 63  # what every database column and JSON reader takes
_BOM = b"\xef\xbb\xbf"


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
    return _checked(_parsed(_decoded(data, max_bytes)))


def load_object(data: bytes, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> JsonObject:
    """`load_json`, and the document is an object."""
    value = load_json(data, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise refuse("json.not_an_object", "the document is not a JSON object")
    return value


class _Object(dict[str, Json]):
    """An object as parsed, with the keys that stood in it more than once."""

    repeated: tuple[str, ...] = ()


def _decoded(data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        raise refuse("json.too_large", f"the document has {len(data):,} bytes; at most {max_bytes:,} are read")
    if data.startswith(_BOM):
        raise refuse("json.byte_order_mark", "the document begins with a byte order mark; save it without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse("json.not_utf8", f"the document is not UTF-8 at byte {error.start}") from error


def _parsed(text: str) -> Json:
    try:
        return cast(Json, json.loads(text, object_pairs_hook=_object, parse_constant=float, parse_int=_integer))
    except json.JSONDecodeError as error:
        sentence = f"the document is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise refuse("json.syntax", sentence) from error
    except RecursionError as error:
        raise refuse("json.too_deep", f"the document is nested deeper than {MAX_DEPTH} levels") from error


def _object(pairs: list[tuple[str, Json]]) -> _Object:
    result = _Object(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        result.repeated = tuple(key for key in result if keys.count(key) > 1)
    return result


def _integer(digits: str) -> int:
    """The value, cut to a sentinel that `_scalar_problem` refuses: huge numbers cost quadratic time."""
    return int(digits) if len(digits) <= 20 else 1 << (_INTEGER_BITS + 1)


def _checked(value: Json) -> Json:
    problems: list[Problem] = []
    for items, (location, found) in enumerate(walk(value)):
        if len(location) > MAX_DEPTH - 1 and isinstance(found, (dict, list)):
            raise refuse("json.too_deep", f"the document is nested deeper than {MAX_DEPTH} levels", path_of(location))
        if items > MAX_ITEMS:
            raise refuse("json.too_many_items", f"the document has more than {MAX_ITEMS:,} members and elements")
        problems.extend(_problems_at(location, found))
    raise_if(problems)
    return _plain(value)


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


def _problems_at(location: tuple[str | int, ...], found: Json) -> Iterator[Problem]:
    if isinstance(found, dict):
        for key in getattr(found, "repeated", ()):
            path = path_of((*location, key))
            yield Problem(path, "json.duplicate_key", "the key stands more than once in its object")
        for key in found:
            if not _is_storable(key):
                yield Problem(
                    path_of((*location, key)), "json.bad_text", "the key holds a NUL or half a surrogate pair"
                )
    elif problem := _scalar_problem(found):
        yield Problem(path_of(location), *problem)


def _scalar_problem(found: Json) -> tuple[str, str] | None:
    match found:
        case bool() | None | list() | dict():
            return None
        case int() if found.bit_length() > _INTEGER_BITS:
            return "json.integer_too_large", "the integer does not fit 64 bits"
        case float() if not math.isfinite(found):
            return "json.not_finite", "NaN, infinities and numbers that overflow are not JSON"
        case str() if not _is_storable(found):
            return "json.bad_text", "the text holds a NUL or half a surrogate pair"
    return None


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _plain(value: Json) -> Json:
    """The same value of plain dicts; its depth is known to be small here."""
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    return [_plain(below) for below in value] if isinstance(value, list) else value


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
