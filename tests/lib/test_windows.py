"""The rows that ``?from=`` shows."""

import pytest

from benchsite.lib.pages import first_of_window


@pytest.mark.parametrize(
    ("asked", "first"),
    [("", 1), ("1", 1), ("50", 1), ("51", 51), ("100", 51), ("101", 101), ("120", 101), ("121", 101), ("9" * 8, 101),
     ("9" * 9, 1), ("0", 1), ("-3", 1), ("x", 1), ("1.5", 1)],
)  # fmt: skip
def test_the_window_with_the_row_that_was_asked_for(asked: str, first: int) -> None:
    assert first_of_window(asked, size=50, rows=120) == first


def test_of_no_rows_the_first_window_is_shown() -> None:
    assert first_of_window("51", size=50, rows=0) == 1
