"""The schemas of what commands print with `--json`, as files of the product, and the shape of each as plain lines."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import runs

FOLDER = Path(runs.__file__).parent / "schemas"
GOLDEN = Path(__file__).parent / "golden/shapes.txt"


def names() -> list[str]:
    return sorted(path.name.removesuffix(".json") for path in FOLDER.glob("*.json"))


def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document


def validated(document: dict[str, Any]) -> dict[str, Any]:
    """The document, after it was held against the schema that it names."""
    problems = [f"{error.json_path}: {error.message}" for error in _validator(document["schema"]).iter_errors(document)]
    assert not problems, "\n".join(problems)
    return document


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name.removeprefix("benchsite.").replace("/", ".")))


def shapes() -> Iterator[str]:
    """One line per place of every document: where it is, whether it is always there, and what stands there."""
    for name in names():
        for line in _places(schema(name), "", required=True):
            yield f"{name} {line}"


def _places(part: dict[str, Any], where: str, *, required: bool) -> Iterator[str]:
    parts = part.get("oneOf", [part])
    yield f"{where or '.'} {_kind(part)}{'' if required else ' optional'}"
    for each in parts:
        for name, inner in sorted(each.get("properties", {}).items()):
            yield from _places(inner, f"{where}.{name}", required=name in each.get("required", []))
        if "items" in each:
            yield from _places(each["items"], f"{where}[]", required=True)


def _kind(part: dict[str, Any]) -> str:
    if "oneOf" in part:
        return "|".join(_kind(each) for each in part["oneOf"])
    if "const" in part:
        return json.dumps(part["const"])
    if "enum" in part:
        return "|".join(json.dumps(value) for value in part["enum"])
    kind = part["type"]
    open_end = " (open)" if kind == "object" and part.get("additionalProperties", True) is not False else ""
    return ("|".join(kind) if isinstance(kind, list) else str(kind)) + open_end


if __name__ == "__main__":  # python -m tests.commands.schemas > tests/commands/golden/shapes.txt
    sys.stdout.write("\n".join(shapes()) + "\n")
