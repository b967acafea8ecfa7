"""Comparisons of evidence with what was expected; all are reported, not only the first that failed."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Proof:
    """One comparison. `code` is the classification code it leads to when it does not hold; `detail` is private. `why`
    is what the code's sentence says then, in words of our own, where the detail is not such words."""

    name: str
    code: str
    ok: bool
    detail: str = ""
    why: str = ""


def equal(name: str, code: str, expected: object, found: object, why: str = "") -> Proof:
    """Equal in type and value: True is not 1. The detail holds both, shortened."""
    ok = type(expected) is type(found) and expected == found
    return Proof(name, code, ok, "" if ok else f"expected {short(expected)}, found {short(found)}", why)


def short(value: object, limit: int = 80) -> str:
    text = ascii(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def at(document: Any, *path: str | int) -> Any:
    """The value at a path of keys and indexes, or None where the path leads nowhere."""
    for part in path:
        if isinstance(part, str) and isinstance(document, dict):
            document = document.get(part)
        elif isinstance(part, int) and isinstance(document, list) and 0 <= part < len(document):
            document = document[part]
        else:
            return None
    return document


def mapping(value: Any) -> dict[str, Any]:
    """The value when it is an object, otherwise an empty one: a mistyped section has no fields."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
