"""A hostile thing in any place of evidence gets a named state, costs bounded time and memory, and follows nothing."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from benchsite.lib.folder import FileState, Folder, UnsafePath, printable, relative_parts
from evidence.reading.rewards import RewardState
from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from runs.outcomes.buckets import Bucket
from tests.evidence.folders import passing_run

type Planter = Callable[[Path], None]


def link(place: Path) -> None:
    place.symlink_to("/etc/passwd")


def loop(place: Path) -> None:
    place.symlink_to(place.name)


def fifo(place: Path) -> None:
    os.mkfifo(place)


def device(place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    os.mknod(place, 0o600 | 0o020000, os.makedev(1, 5))


def hard_link(place: Path) -> None:
    other = place.with_name("other-name")
    other.write_bytes(b'{"reward": 1}')
    place.hardlink_to(other)


def sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(10 * 1024**3)


def folder(place: Path) -> None:
    place.mkdir()


def deep(place: Path) -> None:
    place.write_bytes(b'{"reward":' + b"[" * 400_000)


def not_utf8(place: Path) -> None:
    place.write_bytes(b'{"reward": 1, "\xff": 1}')


def empty(place: Path) -> None:
    place.touch()


PLANTERS = [link, loop, fifo, device, hard_link, sparse, folder, deep, not_utf8, empty]
PLACES = {
    "spec.json": "integrity.spec_unreadable",
    "run.json": "integrity.run_unreadable",
    "journal.json": "integrity.journal_unreadable",
    "ledger.jsonl": "integrity.ledger_broken",
    "trials/1/supervision.json": "integrity.record_unreadable",
    "trials/1/observed.jsonl": None,
    "trials/1/job/task__AbCdEfG/result.json": "harness.result_unreadable",
    "trials/1/job/lock.json": None,
    "trials/1/job/config.json": None,
    "trials/1/kept/verifier/reward.json": "integrity.artifact_hash",
    "trials/1/kept/agent/mini-swe-agent.txt": "integrity.artifact_hash",
}


@pytest.mark.parametrize("planter", PLANTERS, ids=lambda planter: planter.__name__)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_hostile_thing_in_any_place_is_an_error_of_its_own_name(tmp_path: Path, place: str, planter: Planter) -> None:
    run = passing_run(2).write(tmp_path / "run")
    (run / place).unlink()
    planter(run / place)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = read_run(run)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    result = classify_trial(facts.trials[0])
    if PLACES[place]:
        assert result.bucket is Bucket.ERROR
        assert result.code in (PLACES[place], "integrity.spec_mismatch", "integrity.run_identity")
    elif place.endswith("observed.jsonl"):
        assert result.bucket is Bucket.ERROR
    if place.startswith("trials/1/"):
        assert classify_trial(facts.trials[1]).code == "passed.reward_1"


@pytest.mark.parametrize("planter", [link, loop, fifo, device, hard_link, sparse, folder], ids=lambda p: p.__name__)
def test_a_reward_that_is_no_plain_small_file_is_unreadable(tmp_path: Path, planter: Planter) -> None:
    run = passing_run(1)
    run.trial.reward(json=None, txt=None)
    place = run.write(tmp_path / "run") / "trials/1/kept/verifier/reward.txt"
    planter(place)
    trial = read_run(tmp_path / "run").trials[0]
    assert trial.reward.state is RewardState.UNREADABLE
    assert classify_trial(trial).code == "grading.reward_unreadable"


def test_a_link_in_the_middle_of_a_path_is_not_followed(tmp_path: Path) -> None:
    run = passing_run(1).write(tmp_path / "run")
    (run / "trials/1/kept/verifier").rename(tmp_path / "elsewhere")
    (run / "trials/1/kept/verifier").symlink_to(tmp_path / "elsewhere")
    assert Folder(run).read("trials/1/kept/verifier/reward.json", limit=100).state is FileState.UNSAFE_TYPE
    assert classify_trial(read_run(run).trials[0]).code == "integrity.artifact_hash"


@pytest.mark.parametrize("path", ["", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/", "a\0b", "../x"])
def test_an_unclean_path_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnsafePath):
        relative_parts(path)
    assert Folder(tmp_path).read(path, limit=10).state is FileState.UNSAFE_TYPE


def test_the_provider_cannot_point_outside_the_folder(tmp_path: Path) -> None:
    run = passing_run(1)
    transfer = run.trial.event("transfer", purpose="artifact")
    transfer["entries"][0]["path"] = "../../../../../../etc/passwd"
    result = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert result.bucket is Bucket.ERROR


def test_a_read_is_bounded_when_the_file_grows(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert Folder(tmp_path).read("f", limit=5).data == b"12345"
    assert Folder(tmp_path).read("f", limit=4).state is FileState.TOO_LARGE
    assert Folder(tmp_path).sha256("f", limit=4)[0] is FileState.TOO_LARGE
    assert Folder(tmp_path).read("absent", limit=4).state is FileState.MISSING


def test_a_huge_tree_is_walked_up_to_the_bound(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").touch()
    listing = Folder(tmp_path).walk(limit=100)
    assert len(listing.entries) == 100 and listing.truncated
    whole = Folder(tmp_path).walk(limit=300)
    assert len(whole.entries) == 300 and not whole.truncated


def test_a_deep_tree_is_walked_up_to_the_bound(tmp_path: Path) -> None:
    here = tmp_path
    for _ in range(60):
        here = here / "d"
    here.mkdir(parents=True)
    (here / "f").touch()
    entries = Folder(tmp_path).walk(limit=1000).entries
    assert [entry.state for entry in entries] == [FileState.UNREADABLE]


def test_endless_empty_folders_end_the_walk(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}").mkdir()
    assert Folder(tmp_path).walk(limit=100).truncated


def test_names_are_made_printable() -> None:
    assert printable("a\n\x1b[31m\udcff\u202eb") == "a\\n\\x1b[31m\\udcff\\u202eb"
    assert printable("Grüße/日本") == "Grüße/日本"
