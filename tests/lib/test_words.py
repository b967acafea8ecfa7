"""Durations, sizes and missing values read the same everywhere; text from outside is shown inert."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib import words
from benchsite.lib.visible_text import visible


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (55, "55 s"),
        (60, "1 min"),
        (113, "1 min 53 s"),
        (3600, "1 h"),
        (3725, "1 h 02 min"),
        (None, "not recorded"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (0, "0 B"),
        (16, "16 B"),
        (3994, "3.9 KiB"),
        (1024, "1 KiB"),
        (5 * 1024**2 + 1, "5.0 MiB"),
        (None, "not recorded"),
    ],
)
def test_sizes_have_binary_units_and_unknown_is_said(octets: int | None, text: str) -> None:
    assert words.size(octets) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2, "2 s ago"), (89, "89 s ago"), (600, "10 min ago"), (7200, "2 h ago"), (200_000, "2 days ago")],
)
def test_ages_are_rounded_to_what_matters(seconds: int, text: str) -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    assert words.ago(now - timedelta(seconds=seconds), now) == text


def test_a_time_that_never_was_is_never() -> None:
    assert words.ago(None, datetime.now(UTC)) == "never"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred", "a␛[31mred"),
        ("nul\0", "nul␀"),
        ("abc\u202egpj.exe", "abc⟨U+202E⟩gpj.exe"),
        ("\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"),
        ("half \ud800", "half �"),
        ("two\nlines\tkept", "two\nlines\tkept"),
        ("a\U000e0154\u3164b", "a⟨U+E0154⟩⟨U+3164⟩b"),
        (
            "an emoji \u2764\ufe0f stays, x\ufe0f and \u2764\ufe0f\ufe0f not",
            "an emoji \u2764\ufe0f stays, x⟨U+FE0F⟩ and \u2764\ufe0f⟨U+FE0F⟩ not",
        ),
        ("größe 測試", "größe 測試"),
    ],
)
def test_control_direction_and_unseen_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_visible_text_can_always_be_encoded_and_is_stable(text: str) -> None:
    once = visible(text)
    once.encode("utf-8")
    assert visible(once) == once
