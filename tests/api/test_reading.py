"""Bodies are read as every document of the product is, within the bound of the API."""

import pytest
from django.core.exceptions import RequestDataTooBig
from django.test import RequestFactory

from benchsite.api.reading import MAX_BODY, StrictParser
from runs.services.refusals import BadInput


def parsed(body: bytes) -> object:
    return StrictParser().parse_body(RequestFactory().put("/", data=body))


def test_a_clean_value_is_taken_as_it_is() -> None:
    assert parsed(b'{"a": [1, 1.5, true, null, "x"]}') == {"a": [1, 1.5, True, None, "x"]}


@pytest.mark.parametrize(
    "body", [b'{"a": 1, "a": 2}', b"NaN", b"[Infinity]", b"{", b'"\\u0000"', b'"\\ud800"', b"\xef\xbb\xbf{}", b"\xff"]
)
def test_what_another_reader_could_take_for_something_else_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput, match="clean JSON"):
        parsed(body)


def test_a_body_beyond_the_bound_is_not_parsed() -> None:
    assert parsed(b'"' + b"a" * (MAX_BODY - 2) + b'"')
    with pytest.raises(RequestDataTooBig):
        parsed(b'"' + b"a" * (MAX_BODY - 1) + b'"')
