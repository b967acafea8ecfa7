"""Harbor's JSON files of any version from 0.13 to 0.26, read strictly and within bounds."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.strict_json import JsonProblem, load

MAX_RESULT_BYTES = 4 * 1024 * 1024
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_ITEMS = 1_000_000
MAX_DEPTH = 64
MASK = b"[REDACTED]"

_WORDS = {
    "missing": "it is missing",
    "empty": "it is empty",
    "too_large": "it is larger than {limit}",
    "unsafe_type": "it is a link or no plain file",
    "unreadable": "it cannot be read",
    "syntax": "it is no JSON, or was cut",
    "encoding": "it is not UTF-8",
    "not_object": "it is no JSON object",
    "duplicate_key": "a key stands in it twice",
    "nonfinite": "it holds NaN or an infinity",
    "masked": "it is no JSON any more, since Harbor masked a short secret in it",
    "version": "its schema_version is {detail}, which this site does not know",
}


@dataclass(frozen=True, slots=True)
class JsonFile:
    """One file. `trouble` is empty when `content` can be believed to be what stands there; else a word of `_WORDS`."""

    path: str
    trouble: str = ""
    content: dict[str, Any] = field(default_factory=dict)
    detail: str = ""

    @property
    def missing(self) -> bool:
        return self.trouble == "missing"

    @property
    def reason(self) -> str:
        """In words, for a sentence about the file."""
        words = _WORDS.get(self.trouble, f"it was refused ({self.trouble})")
        return words.format(limit=self.detail, detail=self.detail)


def read_json(
    folder: Folder,
    path: str,
    *,
    limit: int = MAX_RESULT_BYTES,
    versions: tuple[int, ...] | None = None,
    unread: tuple[str, ...] | None = None,
) -> JsonFile:
    """An object of at most `limit` bytes. With `versions`, its schema_version is not there or one of these.

    NaN and infinities make a file none, but for the rewards of a result: there they become None, and so no reward.
    Below the keys `unread`, of which the caller reads nothing, whatever JSON has no single meaning for is left be:
    Harbor itself writes two keys "null" into a job's statistics when rewards were NaN and infinite.
    """
    read = folder.read(path, limit=limit)
    if read.state is not FileState.OK:
        return JsonFile(path, read.state.value, detail=f"{limit:,} bytes")
    try:
        content = load(read.data, size=limit, depth=MAX_DEPTH, items=MAX_ITEMS)
    except JsonProblem as problem:
        if problem.places and all(
            (unread is not None and place[: len(unread)] == unread) or (code == "nonfinite" and _is_reward(place))
            for place, code in problem.places
        ):
            content = json.loads(read.data, parse_constant=lambda _: None, parse_float=_finite)
        elif problem.code == "syntax" and MASK in read.data:
            return JsonFile(path, "masked")
        else:
            return JsonFile(path, problem.code, detail=problem.detail)
    if not isinstance(content, dict):
        return JsonFile(path, "not_object")
    version = content.get("schema_version")
    if versions is not None and "schema_version" in content and not (type(version) is int and version in versions):
        return JsonFile(path, "version", detail=repr(version)[:40])
    return JsonFile(path, content=content)


def text(value: Any) -> str:
    """A text that a database can keep; empty for everything else. NUL becomes visible."""
    return value.replace("\0", "\\x00") if isinstance(value, str) else ""


def matches(told: str, wanted: str) -> bool:
    """Whether a text is the wanted one, as far as Harbor's masking of short secrets left it."""
    mask = MASK.decode()
    if mask not in told:
        return told == wanted
    return re.fullmatch(".+?".join(re.escape(part) for part in told.split(mask)), wanted) is not None


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def _is_reward(place: tuple[str | int, ...]) -> bool:
    return "verifier_result" in place and len(place) > 2 and place[place.index("verifier_result") + 1] == "rewards"


def _finite(number: str) -> float | None:
    value = float(number)
    return value if abs(value) != float("inf") else None
