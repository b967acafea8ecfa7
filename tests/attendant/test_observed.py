"""The record of what the attendant saw: canonical, gapless, bounded, and never without its end."""

import errno
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.attendant import observed as module
from runs.attendant.container import record_failure
from runs.attendant.observed import ObservedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "observed.jsonl"


@pytest.fixture
def observed(path: Path) -> Iterator[ObservedFile]:
    opened = ObservedFile(path)
    yield opened
    opened.close()


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_is_canonical_json_with_the_common_fields(path: Path, observed: ObservedFile) -> None:
    observed.write("closed", "agent")
    text = path.read_text()
    record = json.loads(text)
    assert text == json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"
    assert set(record) == {"seq", "at", "mono", "event", "role"}
    assert str(record["at"]).endswith("Z")


def test_the_file_is_private(path: Path, observed: ObservedFile) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_in_its_place_is_refused(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(OSError, match="symbolic"):
        ObservedFile(path)


def test_a_field_cannot_replace_a_common_one(path: Path, observed: ObservedFile) -> None:
    observed.write("exec", "agent", seq=99, at="never")
    assert lines(path)[0]["seq"] == 0
    assert lines(path)[0]["at"] != "never"


def test_threads_that_write_at_once_leave_no_gap(path: Path, observed: ObservedFile) -> None:
    threads = [
        threading.Thread(target=lambda: [observed.write("exec", "agent", purpose="other") for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [line["seq"] for line in lines(path)] == list(range(200))


def test_a_flood_of_commands_cannot_push_out_how_the_container_ended(
    path: Path, observed: ObservedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LINES", 130)
    for _ in range(60):
        observed.write("exec", "agent", purpose="other")
    observed.write("removed", "agent", outcome="removed")
    found = lines(path)
    assert len(found) == 31
    assert observed.dropped == 30
    assert (found[-1]["event"], found[-1]["seq"]) == ("removed", 30)


def test_the_file_is_bounded_in_bytes_too(path: Path, observed: ObservedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", module.RESERVED_BYTES + 2_000)
    for _ in range(50):
        observed.write("transfer", "agent", path="x" * 100)
    assert path.stat().st_size <= 2_000
    assert observed.dropped > 30


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "disk_full"), (errno.EDQUOT, "disk_full"), (errno.EIO, "unexpected")]
)
def test_a_failure_for_want_of_room_is_recorded_as_one(
    path: Path, observed: ObservedFile, number: int, code: str
) -> None:
    record_failure(observed, "agent", "transfer", OSError(number, "it failed"))
    assert [(line["where"], line["code"]) for line in lines(path)] == [("transfer", code)]
