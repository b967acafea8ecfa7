"""Judging a folder costs what its size costs: a file is hashed once, a record is not read beyond its bounds."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsite.lib.folder import Folder
from evidence.reading import observed
from evidence.reading.observed import parse
from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from runs.documents.ceilings import TRANSFER_BYTES
from tests.evidence.folders import RunCase, list_files, passing_run


class Counted:
    """Counts the calls of a function of the product while it goes on working."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.asked: list[Any] = []
        real = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.asked.append(arguments)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch, Folder, "sha256")


def code_of(run: RunCase, where: Path) -> str:
    return classify_trial(read_run(run.write(where / "run")).trials[0]).code


def test_each_kept_file_is_hashed_once(hashed: Counted, tmp_path: Path) -> None:
    run = passing_run(1)
    assert code_of(run, tmp_path) == "passed.reward_1"
    paths = [path for _, path in hashed.asked]
    assert sorted(paths) == sorted(f"trials/1/kept/{path}" for path in run.trial.kept)


def test_4d_a_file_that_is_named_five_hundred_times_is_not_hashed_at_all(hashed: Counted, tmp_path: Path) -> None:
    run = passing_run(1)
    place = run.trial.events.index(run.trial.event("transfer", purpose="agent_logs", direction="download"))
    run.trial.events[place:place] = [dict(run.trial.events[place]) for _ in range(500)]
    assert code_of(run, tmp_path) == "integrity.record_course"
    assert hashed.asked == []


def test_files_that_are_together_larger_than_a_transfer_are_not_hashed_at_all(hashed: Counted, tmp_path: Path) -> None:
    run = passing_run(1)
    transfer = run.trial.event("transfer", purpose="artifact", path="/app/output")
    each = TRANSFER_BYTES // 2
    files = [{"path": f"{n}.bin", "size": each, "sha256": "a" * 64, "modified": 0} for n in range(3)]
    list_files(transfer, files)
    assert code_of(run, tmp_path / "larger") == "integrity.observed_broken"
    assert hashed.asked == []
    list_files(transfer, files[:2])  # as large as a transfer: what is there is compared
    assert code_of(run, tmp_path / "as large") == "integrity.artifact_hash"


def test_4c_thousands_of_transfers_are_read_no_further_than_the_attendant_writes(tmp_path: Path) -> None:
    run = passing_run(1)
    place = run.trial.events.index(run.trial.event("transfer", purpose="artifacts_in"))
    run.trial.events[place:place] = [dict(run.trial.events[place]) for _ in range(19_000)]
    assert code_of(run, tmp_path) == "integrity.observed_broken"


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"{}," * 1_000_000 + b"{}]\n",
        b'{"entries":[' + b"[]," * 1_000_000 + b"[]]}\n",
        b"\n" * 1_000_000,
        b"{}\n" * 1_000_000,
    ],
    ids=["objects", "lists", "blank lines", "empty objects"],
)
def test_4e_a_record_of_nonsense_is_given_up_early(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = Counted(monkeypatch, observed, "_event")
    written = Counted(monkeypatch, msgspec, "to_builtins")
    assert len(parse(data).problems) <= observed.MAX_PROBLEMS
    assert len(decoded.asked) <= observed.MAX_PROBLEMS
    assert written.asked == []


def test_a_record_of_the_largest_size_is_read_whole() -> None:
    line = {"event": "closed", "role": "agent", "at": "2026-06-17T04:00:00.000000Z", "mono": 1.0}
    lines = (json.dumps({**line, "seq": n}, sort_keys=True, separators=(",", ":")) for n in range(observed.MAX_EVENTS))
    found = parse("".join(f"{text}\n" for text in lines).encode())
    assert (len(found.sequence), found.problems) == (observed.MAX_EVENTS, ())
