"""What the gateway writes is what the worker verifies; what was changed in between is found."""

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from datetime import datetime, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.documents import ledger as ledgers
from runs.documents.ledger import MAX_BYTES, MAX_LINE_BYTES, MAX_LINES, LedgerReport, read_ledger
from runs.images.gateway.model_gateway import ledger as gateways
from runs.images.gateway.model_gateway.config import Run
from runs.images.gateway.model_gateway.ledger import LINES_PER_KIND, Entry, Ledger

SHA = "a" * 64
RUN = Run(run_id="0" * 32, spec_sha256=SHA, nonce="b" * 32)


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
    ledger.open(RUN)
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
    assert report.intact and report.lines == 7
    assert report.opening is not None
    assert (report.opening.run_id, report.opening.spec_sha256, report.opening.nonce) == (RUN.run_id, SHA, RUN.nonce)
    assert [len(report.trial(n).completions) for n in (1, 2, 3)] == [2, 1, 0]
    assert report.trial(1).refused == {"busy": 1} and report.unattributed == {"token": 1}


def test_the_earliest_and_the_latest_time_are_those_of_the_first_and_the_last_line(lines: list[bytes]) -> None:
    lines = chained([json.loads(line) | {"at": f"2026-01-01T00:00:0{n}.000000Z"} for n, line in enumerate(lines)])
    report = read(lines)
    assert (report.first_at, report.last_at) == (
        "2026-01-01T00:00:00.000000Z",
        f"2026-01-01T00:00:0{report.lines - 1}.000000Z",
    )


def test_a_flood_of_refusals_leaves_a_few_lines_and_the_whole_count() -> None:
    lines = written(*[refused(1, "steps_used_up")] * 10_000, completed(1))
    assert len(lines) == 1 + LINES_PER_KIND + 1 + 1 + 1
    assert read(lines).trial(1).refused == {"steps_used_up": 10_000}
    assert len(read(lines).trial(1).completions) == 1


def test_every_request_that_reached_the_endpoint_has_its_line() -> None:
    assert len(read(written(*[completed(1)] * 100)).trial(1).forwarded) == 100


def test_nothing_is_written_after_the_closing_line() -> None:
    lines: list[bytes] = []
    ledger = Ledger(lines.append)
    ledger.open(RUN)
    ledger.close()
    ledger.record(completed(1), reached_endpoint=True)
    ledger.close()
    assert len(lines) == 2 and fault(lines) is None


def canonical(record: dict[str, object]) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def sealed(closing: dict[str, object]) -> bytes:
    closing.pop("sha256", None)
    return canonical(closing | {"sha256": hashlib.sha256(canonical(closing)[:-1]).hexdigest()})


def chained(records: list[dict[str, object]]) -> list[bytes]:
    """The records with new numbers and a whole chain: what anybody can compute."""
    lines: list[bytes] = []
    previous = "0" * 64
    for number, record in enumerate(records):
        lines.append(canonical(record | {"seq": number, "prev": previous}))
        previous = hashlib.sha256(lines[-1][:-1]).hexdigest()
    return lines


SINCE_3 = ("api", "flags", "said_status", "retry_after_s")
SINCE_4 = ("cached_tokens", "estimated_prompt_tokens", "estimated_completion_tokens", "reported_cost", "waited_ms")


def without(record: dict[str, object], *names: str) -> dict[str, object]:
    """A request's line as an earlier gateway wrote it."""
    return {name: value for name, value in record.items() if name not in names}


@pytest.fixture
def lines() -> list[bytes]:
    return written(completed(1), completed(2), refused(None, "path"))


def test_a_missing_line_is_a_gap(lines: list[bytes]) -> None:
    assert fault([lines[0], *lines[2:]]) == "ledger.sequence_gap"


def test_a_missing_first_line_is_a_gap(lines: list[bytes]) -> None:
    assert fault(lines[1:]) == "ledger.sequence_gap"


def test_a_changed_line_breaks_the_chain_at_the_next(lines: list[bytes]) -> None:
    changed = lines[1].replace(b'"status":200', b'"status":201')
    assert fault([lines[0], changed, *lines[2:]]) == "ledger.broken_chain"


def test_a_cut_tail_is_not_closed(lines: list[bytes]) -> None:
    assert fault(lines[:-1]) == "ledger.not_closed"


def test_a_torn_last_line_is_found(lines: list[bytes]) -> None:
    assert fault([*lines[:-1], lines[-1][:-5]]) == "ledger.torn_line"


def test_a_line_after_the_closing_line_is_found(lines: list[bytes]) -> None:
    assert fault([*lines, lines[0]]) == "ledger.after_closed"


def test_a_closing_line_with_another_count_is_found(lines: list[bytes]) -> None:
    assert fault([*lines[:-1], sealed(json.loads(lines[-1]) | {"count": 5})]) == "ledger.wrong_count"


@pytest.mark.parametrize("change", [{"count": 5}, {"at": "2999-01-01T00:00:00.000000Z"}, {"sha256": SHA}])
def test_a_changed_closing_line_does_not_have_its_hash(lines: list[bytes], change: dict[str, object]) -> None:
    assert fault([*lines[:-1], canonical(json.loads(lines[-1]) | change)]) == "ledger.malformed_line"


def test_a_closing_line_without_its_hash_ends_only_a_ledger_without_an_opening_line(lines: list[bytes]) -> None:
    closing = json.loads(lines[-1])
    closing.pop("sha256")
    assert fault([*lines[:-1], canonical(closing)]) == "ledger.malformed_line"
    older = chained([without(json.loads(line), *SINCE_3, *SINCE_4) for line in lines[1:-1]] + [closing | {"count": 3}])
    assert fault(older) is None and read(older).opening is None
    older[-1] = sealed(json.loads(older[-1]))
    assert fault(older) == "ledger.malformed_line"


def test_only_the_first_line_opens(lines: list[bytes]) -> None:
    assert fault(chained([json.loads(lines[0]), json.loads(lines[0])])) == "ledger.malformed_line"


def test_a_line_that_is_older_than_the_line_before_it_is_found(lines: list[bytes]) -> None:
    records = [json.loads(line) for line in lines]
    records[2]["at"] = "1999-01-01T00:00:00.000000Z"
    assert fault(chained(records)) == "ledger.times_reversed"


def test_the_gateways_times_never_go_back_when_the_hosts_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(datetime):
        hour_now = 12

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Backwards":
            cls.hour_now -= 1
            return cls(2026, 1, 1, cls.hour_now, tzinfo=tz)

    monkeypatch.setattr(gateways, "datetime", Backwards)
    found = written(completed(1), completed(2))
    assert Backwards.hour_now == 8 and fault(found) is None
    assert {json.loads(line)["at"] for line in found} == {"2026-01-01T11:00:00.000000Z"}


@pytest.mark.parametrize("data", [None, b""])
def test_no_ledger_is_a_fault(data: bytes | None) -> None:
    found = read_ledger(data).fault
    assert found is not None and found.code == "ledger.missing" and found.sentence


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"}, {"status": "200"}, {"trial": True}, {"bytes_in": -1}, {"extra": 1}, {"seq": "0"},
        {"duration_ms": None}, {"session_matches": 1}, {"trial": None}, {"status": None}, {"status": 500},
        {"status": 199}, {"status": 300},
        {"request_sha256": None}, {"response_sha256": None}, {"message_sha256": None}, {"message_sha256": "A" * 64},
        {"message_sha256": SHA + "\n"}, {"prev": "0"}, {"at": ""}, {"at": "2026-01-01T00:00:00Z"},
        {"at": "2026-13-01T00:00:00.000000Z"}, {"at": "2026-01-01T00:00:00.000000+00:00"},
        {"at": "2026-01-01T00:00:00.000000Z\n"},
    ],
)  # fmt: skip
def test_a_line_that_the_gateway_does_not_write_is_malformed(change: dict[str, object]) -> None:
    assert fault([written()[0], canonical(json.loads(written(completed(1))[1]) | change)]) == "ledger.malformed_line"


@pytest.mark.parametrize(
    "change",
    [
        {"status": 500}, {"message_sha256": None}, {"trial": None}, {"api": "messages", "message_sha256": None},
        {"kind": "ok", "api": "embeddings", "message_sha256": None},
    ],
)  # fmt: skip
def test_an_answer_of_another_model_has_all_that_a_completion_has(change: dict[str, object]) -> None:
    opening, wrong = (json.loads(line) for line in written(completed(1))[:2])
    wrong["kind"] = "wrong_model"
    assert fault(chained([opening, wrong])) == "ledger.not_closed"
    assert fault(chained([opening, wrong | change])) == "ledger.malformed_line"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1}, {"version": 5}, {"version": True}, {"run_id": ""}, {"run_id": None}, {"spec_sha256": "A" * 64},
        {"nonce": "b" * 31}, {"nonce": None}, {"nonce": "B" * 32}, {"run_id": "a b"}, {"run_id": "a" * 65}, {"more": 1},
    ],
)  # fmt: skip
def test_an_opening_line_that_the_gateway_does_not_write_is_malformed(change: dict[str, object]) -> None:
    assert fault([canonical(json.loads(written()[0]) | change)]) == "ledger.malformed_line"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_line_says_what_those_of_its_version_say(version: int) -> None:
    opening, line, closing = (json.loads(each) for each in written(completed(1)))
    opening["version"] = version
    forms = {2: without(line, *SINCE_3, *SINCE_4), 3: without(line, *SINCE_4), 4: line}
    for wrote, form in forms.items():
        rebuilt = chained([opening, form])
        rebuilt.append(sealed(closing | {"prev": hashlib.sha256(rebuilt[-1][:-1]).hexdigest()}))
        assert fault(rebuilt) == (None if wrote == version else "ledger.malformed_line")
    for name in (*SINCE_3, *SINCE_4):
        assert fault(chained([opening, without(line, name)])) == "ledger.malformed_line"
    assert fault(chained([opening, without(line, *SINCE_3)])) == "ledger.malformed_line"


@pytest.mark.parametrize(
    "change",
    [
        {"flags": None}, {"flags": "cut"}, {"flags": ["cut", "cut"]}, {"flags": ["refused", "cut"]},
        {"flags": ["more"]}, {"flags": [1]}, {"said_status": 429}, {"said_status": "429"}, {"retry_after_s": 1},
        {"retry_after_s": -1}, {"kind": "answer"},
        {"kind": "upstream_error", "flags": ["cut"]}, {"kind": "upstream_error", "said_status": 200},
        {"kind": "upstream_error", "said_status": True}, {"kind": "upstream_error", "status": 500, "retry_after_s": 1},
        {"kind": "upstream_error", "status": 429, "retry_after_s": 1.0},
        {"estimated_prompt_tokens": 3}, {"estimated_completion_tokens": 4}, {"cached_tokens": -1},
        {"reported_cost": 0.5}, {"waited_ms": None},
    ],
)  # fmt: skip
def test_what_no_gateway_says_of_an_answer_is_malformed(change: dict[str, object]) -> None:
    assert fault([written()[0], canonical(json.loads(written(completed(1))[1]) | change)]) == "ledger.malformed_line"


@pytest.mark.parametrize(
    "change",
    [
        {"flags": ["cut"]}, {"flags": ["refused"]}, {"flags": ["cut", "refused"]},
        {"kind": "wrong_model", "flags": ["cut"]}, {"kind": "upstream_error", "said_status": 429},
        {"kind": "answer", "api": "embeddings"},
        {"kind": "wrong_model", "api": "embeddings", "message_sha256": None},
        {"kind": "upstream_error", "status": 503, "retry_after_s": 0},
    ],
)  # fmt: skip
def test_what_a_gateway_says_of_an_answer_is_read(change: dict[str, object]) -> None:
    opening, line, closing = (json.loads(each) for each in written(completed(1)))
    rebuilt = chained([opening, line | change])
    rebuilt.append(sealed(closing | {"prev": hashlib.sha256(rebuilt[-1][:-1]).hexdigest()}))
    assert fault(rebuilt) is None
    [found] = read(rebuilt).trial(1).requests
    assert (found.was_cut, found.model_refused) == ("cut" in str(change), "refused" in str(change))


def test_a_line_in_another_form_is_malformed(lines: list[bytes]) -> None:
    loose = json.dumps(json.loads(lines[0])).encode() + b"\n"
    assert fault([loose, *lines[1:]]) == "ledger.malformed_line"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"kind"', b'"kind":"ok","kind"'),
        lambda line: line.replace(b'"seq":1', b'"seq":1.0'),
        lambda line: line.replace(b'"bytes_in":0', b'"bytes_in":-0'),
        lambda line: line.replace(b'"status":200', b'"status":1' + b"0" * 30),
        lambda line: line.replace(b'"status":200', b'"status":2e2'),
        lambda line: line.replace(b'"code":null', b'"code":"\\ud800"').replace(b"null", b"NaN", 1),
        lambda line: line.decode().encode("utf-16-le"),
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: line.replace(b'"at":"', b'"at":"' + b"0" * MAX_LINE_BYTES),
    ],
)
def test_a_line_that_another_reader_could_read_otherwise_is_malformed(change: Callable[[bytes], bytes]) -> None:
    opening, line = written(completed(1))[:2]
    assert change(line) != line
    assert fault([opening, change(line.removesuffix(b"\n")) + b"\n"]) == "ledger.malformed_line"


@pytest.mark.parametrize("unit", [b"\n", b"[],", b"{},", b'"",', b"0,"])
def test_a_ledger_of_nothing_but_structure_is_never_built(unit: bytes) -> None:
    """A line of lists took gigabytes when it was parsed first, and so did the list of empty lines."""
    data = b"[" * (unit != b"\n") + unit * (MAX_BYTES // 4 // len(unit)) + b"\n"
    tracemalloc.start()
    try:
        found = read_ledger(data).fault
        assert found is not None
        assert found.code == ("ledger.too_large" if unit == b"\n" else "ledger.malformed_line")
        assert tracemalloc.get_traced_memory()[1] < len(data) / 8
    finally:
        tracemalloc.stop()


def test_of_a_ledger_with_more_lines_than_a_ledger_can_have_none_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_lines: list[bytes] = []
    real = ledgers._record
    monkeypatch.setattr(ledgers, "_record", lambda line: read_lines.append(line) or real(line))
    whole = written(*[completed(1)] * (MAX_LINES - 2))
    assert len(whole) == MAX_LINES
    assert read(whole).intact and len(read_lines) == MAX_LINES
    read_lines.clear()
    assert fault(written(*[completed(1)] * (MAX_LINES - 1))) == "ledger.too_large"
    assert read_lines == []


def test_every_line_that_the_gateway_can_write_is_within_the_bound_of_a_line() -> None:
    most = 2**53
    largest = Entry(
        trial=most, kind="upstream_error", code="c" * 64, status=most, prompt_tokens=most, completion_tokens=most,
        bytes_in=most, bytes_out=most, duration_ms=most, request_sha256=SHA, response_sha256=SHA, message_sha256=SHA,
        session_matches=False,
    )  # fmt: skip
    assert max(map(len, written(largest))) < MAX_LINE_BYTES / 4


@given(place=st.integers(min_value=0), value=st.integers(min_value=0, max_value=255))
def test_no_single_byte_can_be_changed_unseen(place: int, value: int) -> None:
    data = bytearray(b"".join(written(completed(1), refused(1, "busy"))))
    place %= len(data)
    if data[place] == value:
        return
    data[place] = value
    assert not read_ledger(bytes(data)).intact


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_crash(data: bytes) -> None:
    assert not read_ledger(data).intact
