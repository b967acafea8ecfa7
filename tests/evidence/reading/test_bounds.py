"""Judging a folder costs what its size costs: a file is hashed once, a record is not read beyond its bounds."""

import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from benchsite.lib.folder import Folder
from evidence.harbor import applied
from evidence.harbor.applied import config_differences
from evidence.reading import observed
from evidence.reading.observed import parse
from evidence.suite.run_facts import read_run
from evidence.trial import reviewed_files
from evidence.trial.classify import classify_trial
from runs.attendant.downloads import DownloadState, Fetched
from runs.attendant.observed import ObservedFile
from runs.attendant.records import of_download
from runs.documents.ceilings import TRANSFER_BYTES
from runs.wire.copies import MAX_ENTRIES, Entry, KeptCopy
from runs.wire.tar_reader import MAX_REFUSALS, Refusal
from tests.evidence.folders import RunCase, canonical, list_files, passing_run, sha256


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


def test_4d_a_file_that_is_named_again_and_again_is_not_hashed_at_all(hashed: Counted, tmp_path: Path) -> None:
    run = passing_run(1)
    place = run.trial.events.index(run.trial.event("transfer", purpose="agent_logs", direction="download"))
    run.trial.events[place:place] = [dict(run.trial.events[place]) for _ in range(40)]
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


def test_a_line_that_is_longer_than_the_attendant_writes_is_not_decoded() -> None:
    (line,) = [each for each in passing_run(1).trial.events if each["event"] == "launched"]
    within = canonical({**line, "seq": 0, "more": ""})
    longest = within.replace(b'"more":""', b'"more":"' + b"x" * (observed.MAX_LINE_BYTES - len(within)) + b'"')
    assert parse(longest + b"\n").problems == ("line 0: ValidationError",)
    assert parse(longest + b" \n").problems == ("line 0: too long",)


def test_the_longest_line_that_the_attendant_writes_is_within_the_bound(tmp_path: Path) -> None:
    """Of an output with as many files, with as long names, as an archive of an agent may have."""
    name = '"' * 255
    entries = [Entry(f"{n:03}/{name}/{name}/{name}/{name[:200]}", 2**53, "a" * 64) for n in range(MAX_ENTRIES)]
    refusals = [Refusal("\\U0001f600" * 200, "c" * 64)] * MAX_REFUSALS
    copy = KeptCopy(tmp_path / "kept/artifacts/app")
    copy.root.mkdir()
    copy.entries = entries
    state = DownloadState.PARTIAL
    fetched = Fetched(
        "/app", "artifact", state, "c" * 64, "directory", len(entries), 2**53, copy, {}, refusals, Counter(c=2**53)
    )
    record = ObservedFile(tmp_path / "observed.jsonl")
    record.write("transfer", "agent", **of_download(fetched, tmp_path))
    record.close()
    assert observed.MAX_LINE_BYTES / 4 < (tmp_path / "observed.jsonl").stat().st_size < observed.MAX_LINE_BYTES


@pytest.mark.parametrize("number", [0, 1])
def test_more_transfers_than_a_trial_can_have_end_the_reading(number: int) -> None:
    events = passing_run(1).trial.events
    upload = next(event for event in events if event["event"] == "transfer")
    lines = [canonical({**upload, "seq": n}) for n in range(observed.MAX_TRANSFERS + number)]
    found = parse(b"".join(line + b"\n" for line in lines))
    assert found.problems == ("too_many_transfers",) * number
    assert len(found.transfers) == len(lines)


def test_the_files_of_a_task_are_gathered_once_however_often_they_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = Counted(monkeypatch, reviewed_files, "_files")
    asked = []
    for number in (1, 50):
        events = passing_run(1).trial.events
        upload = next(event for event in events if event["event"] == "transfer" and event["purpose"] == "environment")
        lines = [canonical({**upload, "seq": n}) + b"\n" for n in range(number)]
        task = SimpleNamespace(name="task-1", checksum="", files_sha256="")
        reviewed_files.reviewed_checks({}, task, parse(b"".join(lines)))  # type: ignore[arg-type]
        asked.append(len(gathered.asked))
    assert asked == [asked[0], 2 * asked[0]]


def test_a_place_below_a_long_name_does_not_repeat_it() -> None:
    given = {"environment": {"kwargs": {"k" * 100_000: dict.fromkeys(map(str, range(1000)), 1)}}}
    found = {"environment": {"kwargs": {"k" * 100_000: dict.fromkeys(map(str, range(1000)), 2)}}}
    differences = config_differences(given, found)
    assert len(differences) == 1000
    assert sum(len(each.path) for each in differences) <= 1000 * applied.MAX_PLACE


def test_a_walk_opens_each_folder_once_however_deep_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    below = tmp_path / "/".join(["deep"] * 30)
    below.mkdir(parents=True)
    for number in range(200):
        (below / f"{number}").touch()
    opened = Counted(monkeypatch, os, "open")
    assert len(Folder(tmp_path).walk(limit=1000).entries) == 200
    assert len(opened.asked) <= 31


def test_of_a_copy_with_another_number_of_files_none_is_hashed(hashed: Counted, tmp_path: Path) -> None:
    run = passing_run(1)
    logs = run.trial.event("transfer", purpose="agent_logs", direction="download")
    files = [{"path": f"{n:04}", "size": 1, "sha256": sha256(b"x"), "modified": 0} for n in range(300)]
    list_files(logs, files)
    run.trial.kept = {path: data for path, data in run.trial.kept.items() if not path.startswith("agent/")}
    run.trial.kept |= {f"agent/{file['path']}": b"x" for file in files}
    assert code_of(run, tmp_path / "whole") == "passed.reward_1"
    whole = len(hashed.asked)
    run.trial.kept["agent/one-more"] = b"x"
    assert code_of(run, tmp_path / "more") == "integrity.artifact_hash"
    assert len(hashed.asked) - whole == whole - 300


def test_a_record_of_the_largest_size_is_read_whole() -> None:
    line = {"event": "closed", "role": "agent", "at": "2026-06-17T04:00:00.000000Z", "mono": 1.0}
    lines = (json.dumps({**line, "seq": n}, sort_keys=True, separators=(",", ":")) for n in range(observed.MAX_EVENTS))
    found = parse("".join(f"{text}\n" for text in lines).encode())
    assert (len(found.sequence), found.problems) == (observed.MAX_EVENTS, ())
