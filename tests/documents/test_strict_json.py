"""The one strict reader of JSON takes what Python takes, minus what it refuses by name, and builds nothing too big."""

import ast
import json
import math
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib import strict_json
from benchsite.lib.strict_json import MAX_DEPTH, MAX_ITEMS, MAX_NUMBER_LENGTH, JsonProblem, load, load_object

ROOT = Path(__file__).resolve().parents[2]
CODES = {
    "size", "byte_order_mark", "encoding", "depth", "items", "syntax", "duplicate_key", "nonfinite", "number",
    "integer", "surrogate", "nul", "not_object",
}  # fmt: skip

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=4), below, max_size=4),
    max_leaves=30,
)
# Pieces of JSON in any order: far more often nearly right than bytes at random.
PIECES = st.lists(
    st.sampled_from(
        [
            "[", "]", "{", "}", ",", ":", '"', '"a"', '"b"', '"a":', '"a":1,', "0", "-1", "1.5", "1e999", "1e5", "true",
            "null", "NaN", "Infinity", "-Infinity", " ", "\n", "\\", '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"',
            '"[{,:"', '"\\""', '"\\\\"', "\ufeff", "é", "9" * 30, "9" * 5000,
        ]
    ),
    max_size=24,
).map("".join)  # fmt: skip


def code_of(data: bytes, **options: Any) -> str | None:
    try:
        load(data, **options)
    except JsonProblem as problem:
        return problem.code
    return None


def same(first: Any, second: Any) -> bool:
    """Equal with types and signs, as text has them."""
    return repr(first) == repr(second)


def counted(value: Any, depth: int = 0) -> tuple[int, int]:
    """Items, keys and the value itself included, and levels, found in the slow and obvious way."""
    if not isinstance(value, dict | list):
        return 1, depth
    below = [counted(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
    keys = len(value) if isinstance(value, dict) else 0
    return 1 + keys + sum(items for items, _ in below), max([depth + 1, *(levels for _, levels in below)])


def stated_refusal(text: str) -> bool:
    """Whether Python's own reader takes what this one refuses by name."""
    found: list[bool] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        found.append(len(set(keys)) != len(keys))
        return dict(pairs)

    def fraction(written: str) -> float:
        found.append(not math.isfinite(float(written)))
        return float(written)

    value = json.loads(text, object_pairs_hook=members, parse_float=fraction, parse_constant=found.append)
    found.append(any("\ud800" <= character <= "\udfff" for character in json.dumps(value, ensure_ascii=False)))
    items, depth = counted(value)
    return any(entry is not False for entry in found) or items > MAX_ITEMS or depth > MAX_DEPTH


def agrees_with_python(text: str) -> None:
    try:
        wanted = json.loads(text)
    except ValueError:
        assert code_of(text.encode()) in CODES
        return
    if stated_refusal(text):
        assert code_of(text.encode()) in CODES
    else:
        assert same(load(text.encode()), wanted)


@given(PIECES)
def test_it_takes_what_python_takes_but_for_the_stated_refusals(text: str) -> None:
    agrees_with_python(text)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_what_python_writes_is_read_back_or_refused_by_name(value: Any, ascii_only: bool, indent: int | None) -> None:
    agrees_with_python(json.dumps(value, ensure_ascii=ascii_only, indent=indent))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused_with_a_code(data: bytes, storable: bool) -> None:
    assert code_of(data, storable=storable) in CODES | {None}


@given(VALUES.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)))
def test_the_bounds_are_exact(value: Any) -> None:
    data = json.dumps(value).encode()
    items, depth = counted(value)
    assert same(load(data, size=len(data), items=items, depth=depth), value)
    assert code_of(data, items=items - 1, depth=depth) == "items"
    assert code_of(data, size=len(data) - 1) == "size"
    if depth:
        assert code_of(data, items=items, depth=depth - 1) == "depth"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_no_encoding_is_guessed(encoding: str) -> None:
    """Python's own reader takes each of these as bytes."""
    data = '{"a":1}'.encode(encoding)
    assert json.loads(data) == {"a": 1}
    assert code_of(data) in {"encoding", "byte_order_mark", "syntax"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b'{"a":1,"\\u0061":1}', "duplicate_key"),
        (b"[NaN]", "nonfinite"),
        (b"[-Infinity]", "nonfinite"),
        (b"[1e999]", "nonfinite"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"\\udfff":1}', "surrogate"),
        (b"[" + b"9" * (MAX_NUMBER_LENGTH + 1) + b"]", "number"),
        (b"[0." + b"9" * MAX_NUMBER_LENGTH + b"]", "number"),
        (b'["\xed\xa0\x80"]', "encoding"),
        (b'["\xc0\x80"]', "encoding"),
        (b"\xef\xbb\xbf1", "byte_order_mark"),
        (b"1 2", "syntax"),
        (b"", "syntax"),
    ],
)
def test_each_refusal_has_its_code(data: bytes, code: str) -> None:
    assert code_of(data) == code


def test_the_longest_number_is_taken() -> None:
    assert load(b"-" + b"9" * MAX_NUMBER_LENGTH) == -(10**MAX_NUMBER_LENGTH) + 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"[9223372036854775808]", "integer"),
        (b'["\\u0000"]', "nul"),
        (b'{"\\u0000":1}', "nul"),
        (b'["\\\\u0000", 9223372036854775807]', None),
    ],
)
def test_what_a_database_cannot_keep_is_refused_only_when_asked(data: bytes, code: str | None) -> None:
    assert code_of(data, storable=True) == code
    assert code_of(data) is None


def test_every_refused_value_has_its_place() -> None:
    with pytest.raises(JsonProblem) as caught:
        load(b'{"a":[1,NaN],"b":{"c":1,"c":2},"d":"\\ud800","\\ud800":0}')
    assert caught.value.code == "nonfinite"
    assert dict(caught.value.places) == {
        ("a", 1): "nonfinite",
        ("b", "c"): "duplicate_key",
        ("d",): "surrogate",
        ("\ud800",): "surrogate",
    }


def test_a_refused_value_before_a_cut_is_named_and_not_the_cut() -> None:
    assert code_of(b'{"a":{"b":1,"b":0},') == "duplicate_key"


def test_an_object_is_asked_for_by_name() -> None:
    with pytest.raises(JsonProblem) as caught:
        load_object(b"[]")
    assert caught.value.code == "not_object"


@pytest.mark.parametrize(
    ("unit", "code"),
    [
        (b"[],", "items"),
        (b"{},", "items"),
        (b"[", "depth"),
        (b'{"a":', "depth"),
        (b"0,", "items"),
        (b'"",', "items"),
        (b'"\\\\",', "items"),
        (b'"a":"b",', "items"),
    ],
)
def test_what_is_too_much_is_never_built(monkeypatch: pytest.MonkeyPatch, unit: bytes, code: str) -> None:
    """Sixteen megabytes of small values took seconds and gigabytes when they were counted after parsing."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(strict_json.json, "loads", never)
    data = b"[" + unit * (strict_json.MAX_BYTES // len(unit) - 1)
    tracemalloc.start()
    try:
        assert code_of(data) == code
        assert tracemalloc.get_traced_memory()[1] < 6 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", [b'"', b"\\", b'\\"', b'"\\', b'""', b'"\\"', b"]", b"}", b"-", b" "])
def test_a_hostile_text_is_looked_at_once(unit: bytes) -> None:
    """Each of these made some reader look at a position again and again."""
    assert code_of(b'["' + unit * (1_000_000 // len(unit)), size=strict_json.MAX_BYTES) in CODES


def test_the_file_runs_alone_under_the_python_of_the_gateways_image() -> None:
    tree = ast.parse(Path(strict_json.__file__).read_text(), feature_version=(3, 11))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported and imported <= sys.stdlib_module_names


def test_the_gateway_has_the_very_same_file() -> None:
    copy = ROOT / "runs" / "images" / "gateway" / "model_gateway" / "strict_json.py"
    assert copy.read_bytes() == Path(strict_json.__file__).read_bytes()
