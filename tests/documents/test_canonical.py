"""Strict loading and the canonical form (design 6 and 7)."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib.canonical import (
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    MAX_ITEMS,
    canonical_bytes,
    canonical_sha256,
    content_sha256,
    load_json,
    load_object,
)
from benchsite.lib.problems import DocumentError

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
DOCUMENTS = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXT, below, max_size=4), max_leaves=20
).filter(lambda value: depth(value) <= MAX_DEPTH)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def shuffled(value: object, source: random.Random) -> object:
    """The same document with its keys in another order at every level."""
    if isinstance(value, dict):
        items = [(key, shuffled(below, source)) for key, below in value.items()]
        source.shuffle(items)
        return dict(items)
    return [shuffled(below, source) for below in value] if isinstance(value, list) else value


def identity(value: object) -> object:
    """Equal for two documents if and only if they are the same JSON: types and signs count."""
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(below)) for key, below in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(identity, value)))
    return (type(value).__name__, repr(value))


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_canonical_form_does_not_depend_on_the_order_of_keys(document, source):
    assert canonical_bytes(shuffled(document, source)) == canonical_bytes(document)


@given(DOCUMENTS)
def test_canonical_form_is_stable_when_it_is_loaded_and_written_again(document):
    data = canonical_bytes(document)
    assert data.isascii()
    assert canonical_bytes(load_json(data)) == data


@given(DOCUMENTS, DOCUMENTS)
def test_two_documents_have_one_hash_only_if_they_are_the_same(first, second):
    assert (canonical_sha256(first) == canonical_sha256(second)) == (identity(first) == identity(second))


@given(DOCUMENTS)
def test_white_space_and_escapes_do_not_change_what_is_loaded(document):
    spread = json.dumps(document, indent=3, ensure_ascii=False).encode()
    assert canonical_bytes(load_json(spread)) == canonical_bytes(document)


@given(st.binary(max_size=200))
def test_any_bytes_load_or_are_refused_with_a_code(data):
    try:
        load_json(data)
    except DocumentError as error:
        assert all(problem.code.startswith("json.") for problem in error.problems)


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), (None, "null")])
def test_values_that_python_or_people_take_for_equal_have_different_hashes(first, second):
    assert canonical_sha256({"a": first}) != canonical_sha256({"a": second})


def test_the_canonical_form_is_what_the_design_says():
    assert canonical_bytes({"b": [1, 2.5, None, True], "a": "é"}) == b'{"a":"\\u00e9","b":[1,2.5,null,true]}'


def test_a_documents_hash_leaves_out_its_own_field_and_nothing_else():
    assert content_sha256({"a": 1, "content_sha256": "x"}) == canonical_sha256({"a": 1})
    assert content_sha256({"a": {"content_sha256": "x"}}) != content_sha256({"a": {}})


@pytest.mark.parametrize(
    ("data", "code", "path"),
    [
        pytest.param(b'{"a":1,"a":1}', "json.duplicate_key", "a", id="duplicate-key"),
        pytest.param(b'{"a":[{"b":1,"c":2,"b":3}]}', "json.duplicate_key", "a[0].b", id="deep-duplicate-key"),
        pytest.param(b'{"a":NaN}', "json.not_finite", "a", id="nan"),
        pytest.param(b'{"a":[-Infinity]}', "json.not_finite", "a[0]", id="infinity"),
        pytest.param(b'{"a":1e999}', "json.not_finite", "a", id="overflow"),
        pytest.param(b'{"a":9223372036854775808}', "json.integer_too_large", "a", id="65-bit-integer"),
        pytest.param(b'{"a":' + b"9" * 100_000 + b"}", "json.integer_too_large", "a", id="100000-digits"),
        pytest.param(b'{"a":"\\ud800"}', "json.bad_text", "a", id="lone-surrogate"),
        pytest.param(b'{"a":"x\\u0000"}', "json.bad_text", "a", id="nul"),
        pytest.param(b'{"\\u0000":1}', "json.bad_text", '["\\x00"]', id="nul-in-key"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', "json.byte_order_mark", "", id="byte-order-mark"),
        pytest.param(b'{"a":"\xff"}', "json.not_utf8", "", id="not-utf8"),
        pytest.param('{"a":1}'.encode("utf-16"), "json.not_utf8", "", id="utf-16"),
        pytest.param(b'{"a":1', "json.syntax", "", id="cut"),
        pytest.param(b"", "json.syntax", "", id="empty"),
        pytest.param(b"{'a':1}", "json.syntax", "", id="single-quotes"),
        pytest.param(b'{"a":1,}', "json.syntax", "", id="trailing-comma"),
        pytest.param(b'{"a":01}', "json.syntax", "", id="leading-zero"),
        pytest.param(b"{} {}", "json.syntax", "", id="two-documents"),
        pytest.param(b"[" * 100_000, "json.too_deep", "", id="100000-levels"),
        pytest.param(b"[" * 13 + b"]" * 13, "json.too_deep", "[0]" * 12, id="13-levels"),
        pytest.param(b"[" + b"1," * MAX_ITEMS + b"1]", "json.too_many_items", "", id="4097-elements"),
        pytest.param(b" " * (MAX_DOCUMENT_BYTES + 1), "json.too_large", "", id="too-large"),
    ],
)
def test_a_document_that_is_not_strict_json_is_refused_with_its_own_code(data, code, path):
    with pytest.raises(DocumentError) as caught:
        load_json(data)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(code, path)]


def test_all_problems_of_one_document_are_told_at_once():
    with pytest.raises(DocumentError) as caught:
        load_json(b'{"a":NaN,"b":{"c":1,"c":2},"d":1e999}')
    assert [problem.path for problem in caught.value.problems] == ["a", "b.c", "d"]
    assert caught.value.sentence.endswith("(and 2 more)")


def test_the_bounds_themselves_are_taken():
    assert load_json(b"[" * 12 + b"]" * 12)
    assert len(load_json(b"[" + b"1," * (MAX_ITEMS - 1) + b"1]")) == MAX_ITEMS
    assert load_json(b'{"a":9223372036854775807,"b":-9223372036854775807}')


def test_a_document_must_be_an_object_where_one_is_asked_for():
    with pytest.raises(DocumentError, match="not a JSON object"):
        load_object(b"[]")


@pytest.mark.parametrize("value", [{1: 2}, {"a": (1, 2)}, {"a": b"x"}, {"a": float("nan")}, {"a": {"b": {1}}}])
def test_what_is_not_json_has_no_canonical_form(value):
    with pytest.raises(DocumentError):
        canonical_bytes(value)
