"""Entries of a long list are found where they stand, however the file is cut into blocks."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.trajectory import json_offsets
from evidence.trajectory.json_offsets import ListScanner, Range, read_range

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[]{},:\n é'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\[', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=3) | st.lists(values, max_size=3)


def found(data: bytes, *keys: str) -> tuple[list[Any], ListScanner]:
    scanner = ListScanner(io.BytesIO(data), keys or ("messages",))
    return [json.loads(data[place.start : place.end]) for place in scanner.entries()], scanner


@given(
    entries=st.lists(objects, max_size=5),
    before=st.dictionaries(st.sampled_from(["info", "agent", "é"]), values, max_size=2),
    after=st.dictionaries(st.sampled_from(["version", "end"]), values, max_size=2),
    block=st.integers(1, 9) | st.just(1024),
    indent=st.none() | st.just(1),
)
def test_entries_and_members_are_found_in_any_blocks(
    entries: list[Any], before: dict[str, Any], after: dict[str, Any], block: int, indent: int | None
) -> None:
    document = {**before, "messages": entries, **after}
    data = json.dumps(document, indent=indent, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_offsets, "BLOCK", block)
        got, scanner = found(data)
    assert got == entries
    assert scanner.layout.complete and scanner.layout.list_key == "messages"
    assert {
        name: json.loads(data[place.start : place.end]) for name, place in scanner.layout.members.items()
    } == document


@given(st.lists(objects, max_size=4), st.integers(0, 400))
def test_a_cut_file_gives_the_entries_before_the_cut(entries: list[Any], end: int) -> None:
    data = json.dumps({"messages": entries}).encode()[:end]
    got, scanner = found(data)
    assert got == entries[: len(got)]
    assert scanner.layout.complete == (data == json.dumps({"messages": entries}).encode())


@given(st.binary(max_size=300))
def test_any_bytes_are_followed_without_a_crash(data: bytes) -> None:
    scanner = ListScanner(io.BytesIO(data), ("messages",))
    assert all(0 <= place.start < place.end <= len(data) for place in scanner.entries())


def test_a_bare_list_is_the_list() -> None:
    got, scanner = found(b'[{"a": 1}, [2]]')
    assert got == [{"a": 1}, [2]] and scanner.layout.list_key == ""


def test_a_list_of_that_name_deeper_down_is_not_the_list() -> None:
    got, scanner = found(b'{"info": {"messages": [{}]}, "messages": [{"a": 1}], "other": [{}]}')
    assert got == [{"a": 1}] and scanner.layout.list_key == "messages"


def test_entries_that_are_no_objects_are_counted() -> None:
    got, scanner = found(b'{"messages": [1, "a,b", {"a": 1}, null]}')
    assert got == [{"a": 1}] and scanner.layout.scalars == 3


def test_a_range_that_is_too_long_is_not_read() -> None:
    assert read_range(io.BytesIO(b"abcdef"), Range(1, 4), 3) == b"bcd"
    assert read_range(io.BytesIO(b"abcdef"), Range(1, 5), 3) is None
