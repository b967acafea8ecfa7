"""What the supervisor reads of `observed.jsonl` while the attendant still writes it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.trials.trial_process import LONGEST_OBSERVED_LINE, ObservedTail

EVENTS = st.lists(st.fixed_dictionaries({"event": st.sampled_from(["opened", "exec", "closed"]), "n": st.integers()}))


def lines_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@given(events=EVENTS, cuts=st.lists(st.integers(0, 400), max_size=6))
def test_however_the_writes_are_cut_every_event_comes_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], cuts: list[int]
) -> None:
    content, path = lines_of(events), tmp_path_factory.getbasetemp() / "observed.jsonl"
    tail, seen = ObservedTail(path), []
    for end in [*sorted(cuts), len(content)]:
        path.write_bytes(content[:end])
        seen += list(tail.new_lines())
    assert seen == events


def test_before_the_attendant_wrote_anything_there_is_nothing(tmp_path: Path) -> None:
    assert list(ObservedTail(tmp_path / "absent").new_lines()) == []


@pytest.mark.parametrize("broken", [b"{not json}\n", b"[1]\n", b'"text"\n', b"\n", b"\xff\xfe\n", b'{"a":\n'])
def test_a_broken_line_is_passed_over_and_what_follows_is_seen(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "observed.jsonl"
    path.write_bytes(lines_of([{"event": "opened"}]) + broken + lines_of([{"event": "closed"}]))
    assert [event["event"] for event in ObservedTail(path).new_lines()] == ["opened", "closed"]


def test_a_line_longer_than_is_ever_read_hides_nothing_after_it(tmp_path: Path) -> None:
    """An agent chooses the names of its files, and so the length of a line."""
    path = tmp_path / "observed.jsonl"
    long = {"event": "transfer", "path": "x" * 3 * LONGEST_OBSERVED_LINE}
    path.write_bytes(lines_of([{"event": "opened"}, long, {"event": "closed"}]))
    tail, seen = ObservedTail(path), list[str]()
    for _ in range(8):
        seen += [event["event"] for event in tail.new_lines()]
    assert seen == ["opened", "closed"]
