"""What the gateway writes is what the worker verifies; what was changed in between is found."""

import json
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.documents.ledger import MAX_BYTES, MAX_LINE_BYTES, LedgerReport, read_ledger
from runs.images.gateway.model_gateway.ledger import LINES_PER_KIND, Entry, Ledger

SHA = "a" * 64


def completed(trial: int, digest: str = SHA) -> Entry:
    return Entry(
        trial=trial, kind="ok", status=200, prompt_tokens=3, completion_tokens=4, request_sha256=SHA,
        response_sha256=SHA, message_sha256=digest, session_matches=True,
    )  # fmt: skip


def refused(trial: int | None, code: str) -> Entry:
    return Entry(trial=trial, kind="refused", code=code, status=404)


def written(*entries: Entry, close: bool = True) -> list[bytes]:
    lines: list[bytes] = []
    ledger = Ledger(lines.append)
    for entry in entries:
        ledger.record(entry, reached_endpoint=entry.request_sha256 is not None)
    if close:
        ledger.close()
    return lines


def read(lines: list[bytes]) -> LedgerReport:
    return read_ledger(b"".join(lines))


def fault(lines: list[bytes]) -> str | None:
    found = read(lines).fault
    return found.code if found else None


def test_a_whole_ledger_is_intact_and_counted_per_trial() -> None:
    report = read(written(completed(1), refused(1, "busy"), completed(2), refused(None, "token"), completed(1)))
    assert report.intact and report.lines == 6
    assert [len(report.trial(n).completions) for n in (1, 2, 3)] == [2, 1, 0]
    assert report.trial(1).refused == {"busy": 1} and report.unattributed == {"token": 1}


def test_a_flood_of_refusals_leaves_a_few_lines_and_the_whole_count() -> None:
    lines = written(*[refused(1, "steps_used_up")] * 10_000, completed(1))
    assert len(lines) == LINES_PER_KIND + 1 + 1 + 1
    assert read(lines).trial(1).refused == {"steps_used_up": 10_000}
    assert len(read(lines).trial(1).completions) == 1


def test_every_request_that_reached_the_endpoint_has_its_line() -> None:
    assert len(read(written(*[completed(1)] * 100)).trial(1).forwarded) == 100


def test_nothing_is_written_after_the_closing_line() -> None:
    lines: list[bytes] = []
    ledger = Ledger(lines.append)
    ledger.close()
    ledger.record(completed(1), reached_endpoint=True)
    ledger.close()
    assert len(lines) == 1 and fault(lines) is None


@pytest.fixture
def lines() -> list[bytes]:
    return written(completed(1), completed(2), refused(None, "path"))


def test_a_missing_line_is_a_gap(lines: list[bytes]) -> None:
    assert fault([lines[0], *lines[2:]]) == "ledger.sequence_gap"


def test_a_missing_first_line_is_a_gap(lines: list[bytes]) -> None:
    assert fault(lines[1:]) == "ledger.sequence_gap"


def test_a_changed_line_breaks_the_chain_at_the_next(lines: list[bytes]) -> None:
    changed = lines[0].replace(b'"status":200', b'"status":201')
    assert fault([changed, *lines[1:]]) == "ledger.broken_chain"


def test_a_cut_tail_is_not_closed(lines: list[bytes]) -> None:
    assert fault(lines[:-1]) == "ledger.not_closed"


def test_a_torn_last_line_is_found(lines: list[bytes]) -> None:
    assert fault([*lines[:-1], lines[-1][:-5]]) == "ledger.torn_line"


def test_a_line_after_the_closing_line_is_found(lines: list[bytes]) -> None:
    assert fault([*lines, lines[0]]) == "ledger.after_closed"


def test_a_closing_line_with_another_count_is_found(lines: list[bytes]) -> None:
    assert fault([*lines[:-1], lines[-1].replace(b'"count":3', b'"count":4')]) == "ledger.wrong_count"


@pytest.mark.parametrize("data", [None, b""])
def test_no_ledger_is_a_fault(data: bytes | None) -> None:
    found = read_ledger(data).fault
    assert found is not None and found.code == "ledger.missing" and found.sentence


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"}, {"status": "200"}, {"trial": True}, {"bytes_in": -1}, {"extra": 1}, {"seq": "0"},
        {"duration_ms": None}, {"session_matches": 1},
    ],
)  # fmt: skip
def test_a_line_that_the_gateway_does_not_write_is_malformed(change: dict[str, object]) -> None:
    record = json.loads(written(completed(1))[0]) | change
    line = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    assert fault([line]) == "ledger.malformed_line"


def test_a_line_in_another_form_is_malformed(lines: list[bytes]) -> None:
    loose = json.dumps(json.loads(lines[0])).encode() + b"\n"
    assert fault([loose, *lines[1:]]) == "ledger.malformed_line"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"kind"', b'"kind":"ok","kind"'),
        lambda line: line.replace(b'"seq":0', b'"seq":0.0'),
        lambda line: line.replace(b'"seq":0', b'"seq":-0'),
        lambda line: line.replace(b'"status":200', b'"status":1' + b"0" * 30),
        lambda line: line.replace(b'"status":200', b'"status":2e2'),
        lambda line: line.replace(b'"code":null', b'"code":"\\ud800"').replace(b"null", b"NaN", 1),
        lambda line: line.decode().encode("utf-16-le"),
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: line.replace(b'"at":"', b'"at":"' + b"0" * MAX_LINE_BYTES),
    ],
)
def test_a_line_that_another_reader_could_read_otherwise_is_malformed(change: Callable[[bytes], bytes]) -> None:
    line = written(completed(1))[0]
    assert change(line) != line
    assert fault([change(line.removesuffix(b"\n")) + b"\n"]) == "ledger.malformed_line"


@pytest.mark.parametrize("unit", [b"\n", b"[],", b"{},", b'"",', b"0,"])
def test_a_ledger_of_nothing_but_structure_is_never_built(unit: bytes) -> None:
    """A line of lists took gigabytes when it was parsed first, and so did the list of empty lines."""
    data = b"[" * (unit != b"\n") + unit * (MAX_BYTES // 4 // len(unit)) + b"\n"
    tracemalloc.start()
    try:
        found = read_ledger(data).fault
        assert found is not None and found.code == "ledger.malformed_line"
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()


@given(place=st.integers(min_value=0), value=st.integers(min_value=0, max_value=255))
def test_no_single_byte_can_be_changed_unseen(place: int, value: int) -> None:
    data = bytearray(b"".join(written(completed(1), refused(1, "busy"))))
    place %= len(data)
    # The closing line ends the chain, so its own time is the one thing that nothing after it vouches for.
    if data[place] == value or place >= data.rfind(b'{"at"'):
        return
    data[place] = value
    assert not read_ledger(bytes(data)).intact


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_crash(data: bytes) -> None:
    assert not read_ledger(data).intact
