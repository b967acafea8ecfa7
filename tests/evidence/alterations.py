"""Every change of one leaf of a real run's documents: dropped, of each wrong type, huge, or another value."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.evidence.folders import canonical, sha256

type Place = tuple[str | int, ...]

# One of each wrong type; 10**400 is a number that no float holds.
OTHERS: tuple[Any, ...] = (None, True, 7, 10**400, -1.5, "altered", "", [], {}, [1], {"a": 1})
DROPPED = object()


def leaves(document: Any, place: Place = ()) -> Iterator[Place]:
    """Every place of a document: of a list of more than two alike, its first and its last stand for the others."""
    if place:
        yield place
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, (*place, name))
    elif isinstance(document, list):
        alike = bool(place) and len(document) > 2 and len({type(value) for value in document}) == 1
        for index in {0, len(document) - 1} if alike else range(len(document)):
            yield from leaves(document[index], (*place, index))


def altered(document: Any, place: Place, value: Any) -> Any:
    """A copy of the document with another value at the place, or without it."""
    changed = copy.deepcopy(document)
    here = changed
    for part in place[:-1]:
        here = here[part]
    if value is DROPPED:
        del here[place[-1]]
    else:
        here[place[-1]] = value
    return changed


def changes(document: Any, place: Place) -> Iterator[Any]:
    """The other values of a place: none that is what stands there."""
    here = document
    for part in place:
        here = here[part]
    yield DROPPED
    for value in (*OTHERS, *_near(here)):
        if type(value) is not type(here) or value != here:
            yield value


def _near(value: Any) -> Iterator[Any]:
    """Other values of the same type."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, -value - 1)
    elif isinstance(value, float):
        yield from (value + 0.5, value * 1000)
    elif isinstance(value, str):
        yield from (value + "x", value[1:], "1999-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z")
        if re.fullmatch(r"[0-9a-f]{32,64}", value):
            yield value[1:] + ("1" if value[0] == "0" else "0")  # another hash or id
    elif isinstance(value, list):
        yield from ([*value, *value], value[1:])


def load(path: Path) -> Any:
    """A document, or the documents of a file of lines."""
    data = path.read_bytes()
    return [json.loads(line) for line in data.splitlines()] if path.suffix == ".jsonl" else json.loads(data)


def dump(path: Path, document: Any) -> None:
    lines = document if path.suffix == ".jsonl" else [document]
    text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
    path.write_text(text)


def dump_chained(path: Path, lines: list[Any], place: Place) -> None:
    """The lines of a ledger with their chain made anew, all but what was changed at `place`, and its hash in the run's
    record: what whoever changes a ledger can do without any key."""
    previous = "0" * 64
    for number, line in enumerate(lines):
        if isinstance(line, dict):
            if "prev" in line and place != (number, "prev"):
                line["prev"] = previous
            if "sha256" in line and place != (number, "sha256"):
                line["sha256"] = sha256(canonical({name: value for name, value in line.items() if name != "sha256"}))
        previous = sha256(canonical(line))
    dump(path, lines)
    record = path.with_name("run.json")
    dump(record, load(record) | {"ledger_sha256": sha256(path.read_bytes())})


def changed_bytes(data: bytes) -> Iterator[bytes | None]:
    """Other contents of a file; None is no file."""
    yield from (None, b"", data + b"\n", data[:-1], b"0" + data[1:], data[:-1] + b"\0", b"1\n", b'{"reward": 1}')


def pattern(place: Place) -> str:
    """A place as the table of the documentation writes it: any index of a list is [*]."""
    words = ""
    for part in place:
        words += "[*]" if isinstance(part, int) else f".{part}" if words else str(part)
    return words
