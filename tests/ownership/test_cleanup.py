"""A cleanup is a result of its own: it fences, stops, removes, verifies, and never says clean for unknown."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from runs.containers import Deadline, Engine, EngineError, create_owned
from runs.engine.ending.cleanup import CleanupResult, clean_up, close, remove_all
from runs.engine.ending.work_deletion import MAX_DEPTH, WorkRefused, delete_work
from runs.engine.trials.processes import Launched, Stopped, launch
from runs.ownership import Journal, Outcome, group_members, identity_is_alive

from .conftest import agent_request
from .fake_engine import FakeEngine, Fault
from .test_processes import until

RUN = "1" * 32
HOLDS_THE_LOCK = """
import fcntl, os, sys, time
while not os.path.exists("recorded"):
    time.sleep(0.01)
lock = open(sys.argv[1])
fcntl.flock(lock, fcntl.LOCK_EX)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def harness(journal: Journal, tmp_path: Path) -> Iterator[Callable[[str], Launched]]:
    launched: list[Launched] = []

    def start(program: str) -> Launched:
        with (tmp_path / "log").open("wb") as output:
            child = launch(
                [sys.executable, "-c", program, str(journal.directory / "journal.lock")],
                owner=journal.read().owner,
                environment={},
                directory=tmp_path,
                output=output,
            )
        launched.append(child)
        return child

    yield start
    for child in launched:
        child.process.kill()
        child.process.wait()


def connected(engine: FakeEngine) -> Callable[[Deadline], Engine]:
    return lambda _: engine


def run(engine: FakeEngine, journal: Journal, data: Path | None = None) -> CleanupResult:
    return clean_up(connected(engine), journal, reason="cancelled", data=data)


class TestCleanUp:
    def test_everything_is_closed_stopped_and_removed(
        self, engine: FakeEngine, journal: Journal, harness: Callable[[str], Launched]
    ) -> None:
        child = harness("import time; time.sleep(60)")
        journal.record_process(child.identity, trial=1)
        owned = create_owned(engine, journal, {"trial": 1}, agent_request())
        result = run(engine, journal)
        assert result.state == "clean"
        assert [stopped.outcome for stopped in result.closed.stopped] == [Stopped.TERMINATED]
        assert [resource.outcome for resource in result.report.resources] == [Outcome.REMOVED]
        assert owned.id not in engine.resources
        assert journal.read().fence is not None

    def test_repeating_it_is_harmless_and_needs_no_engine(self, engine: FakeEngine, journal: Journal) -> None:
        create_owned(engine, journal, {}, agent_request())
        run(engine, journal)

        def no_engine(_: Deadline) -> Engine:
            raise EngineError("engine_unreachable", "", "")

        assert clean_up(no_engine, journal, reason="again").state == "clean"

    def test_a_frozen_holder_of_the_lock_is_stopped_before_the_fence_is_written(
        self, engine: FakeEngine, journal: Journal, harness: Callable[[str], Launched], tmp_path: Path
    ) -> None:
        child = harness(HOLDS_THE_LOCK)
        journal.record_process(child.identity, trial=1)
        (tmp_path / "recorded").touch()
        until(lambda: "ready" in (tmp_path / "log").read_text())
        os.kill(child.identity.pid, signal.SIGSTOP)
        closed = close(journal, "cancelled")
        assert closed.clean
        assert [stopped.outcome for stopped in closed.stopped] == [Stopped.KILLED]
        assert journal.read().fence is not None
        assert not identity_is_alive(child.identity)

    def test_a_corrupt_journal_is_a_failed_cleanup_that_touches_nothing(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        owned = create_owned(engine, journal, {}, agent_request())
        journal.path.write_bytes(b"{")
        engine.calls.clear()
        result = run(engine, journal)
        assert result.state == "failed"
        assert "journal_corrupt" in result.as_json()["problems"]
        assert engine.calls == [] and owned.id in engine.resources

    def test_an_engine_that_cannot_be_reached_is_a_failed_cleanup(self, engine: FakeEngine, journal: Journal) -> None:
        create_owned(engine, journal, {}, agent_request())

        def refused(_: Deadline) -> Engine:
            raise EngineError("engine_unreachable", "", "")

        result = clean_up(refused, journal, reason="cancelled")
        assert (result.state, result.problems) == ("failed", ("engine_unreachable",))
        assert run(engine, journal).state == "clean"

    def test_a_process_that_cannot_be_verified_fails_the_cleanup(
        self, engine: FakeEngine, journal: Journal, harness: Callable[[str], Launched]
    ) -> None:
        child = harness("import time; time.sleep(60)")
        journal.record_process(replace(child.identity, start_ticks=0), trial=1)
        result = run(engine, journal)
        assert result.state == "failed"
        assert group_members(child.identity) == [child.identity.pid]

    def test_what_is_left_is_named_for_operators(self, engine: FakeEngine, journal: Journal) -> None:
        owned = create_owned(engine, journal, {}, agent_request())
        engine.resources[owned.id]["Config"]["Labels"] = {}
        document = run(engine, journal).as_json()
        assert document["state"] == "failed"
        assert document["resources"][0]["id"] == owned.id
        assert json.loads(json.dumps(document)) == document

    def test_something_that_the_engine_still_lists_is_not_clean(
        self, engine: FakeEngine, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        owned = create_owned(engine, journal, {}, agent_request())
        drop = engine._drop

        def drop_and_return(resource_id: str) -> None:
            drop(resource_id)
            engine.place("container", owned.intent.labels)

        monkeypatch.setattr(engine, "_drop", drop_and_return)
        result = remove_all(connected(engine), journal, closed=close(journal, "cancelled"))
        assert (result.state, result.problems) == ("failed", ("still_present",))

    def test_unknown_is_not_clean(self, engine: FakeEngine, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        create_owned(engine, journal, {}, agent_request())
        engine.script("inspect", *[Fault.ERROR] * 10_000)
        virtual = partial(Deadline, monotonic=engine.monotonic, sleep=engine.sleep)
        monkeypatch.setattr("runs.engine.ending.cleanup.Deadline", virtual)
        assert run(engine, journal).state == "failed"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    work = tmp_path / "data/runs" / RUN / "work"
    (work / "home/deep/er").mkdir(parents=True)
    (work / "home/deep/file").write_text("x")
    (work.parent / "trials").mkdir()
    (work.parent / "trials/kept").write_text("evidence")
    (tmp_path / "data/runs" / ("2" * 32) / "work").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("theirs")
    return tmp_path / "data"


def outside(data: Path) -> str:
    return (data.parent / "outside/file").read_text()


class TestWork:
    def test_only_the_runs_work_is_deleted(self, data: Path) -> None:
        delete_work(data, RUN)
        run_folder = data / "runs" / RUN
        assert [path.name for path in run_folder.iterdir()] == ["trials"]
        assert (run_folder / "trials/kept").read_text() == "evidence"
        assert (data / "runs" / ("2" * 32) / "work").is_dir()

    def test_nothing_to_delete_is_fine(self, data: Path) -> None:
        delete_work(data, RUN)
        delete_work(data, RUN)

    def test_links_inside_are_removed_and_not_followed(self, data: Path) -> None:
        work = data / "runs" / RUN / "work"
        (work / "folder").symlink_to(data.parent / "outside")
        (work / "file").symlink_to(data.parent / "outside/file")
        os.link(data.parent / "outside/file", work / "hard")
        os.mkfifo(work / "pipe")
        delete_work(data, RUN)
        assert not work.exists()
        assert outside(data) == "theirs"

    @pytest.mark.parametrize("component", ["work", "run", "runs"])
    def test_a_link_in_the_place_of_a_folder_is_refused(self, data: Path, component: str) -> None:
        place = {"work": data / "runs" / RUN / "work", "run": data / "runs" / RUN, "runs": data / "runs"}[component]
        target = data.parent / "outside"
        (target / RUN / "work").mkdir(parents=True)
        (target / "work").mkdir()
        place.rename(data.parent / "moved")
        place.symlink_to(target)
        with pytest.raises(WorkRefused):
            delete_work(data, RUN)
        assert (target / "work").is_dir() and (target / RUN / "work").is_dir()
        assert outside(data) == "theirs"

    @pytest.mark.parametrize("name", ["..", ".", "", "../outside", RUN + "/..", RUN[:-1], RUN.replace("1", "G")])
    def test_only_a_run_id_names_a_run(self, data: Path, name: str) -> None:
        with pytest.raises(WorkRefused):
            delete_work(data, name)

    def test_folders_nested_without_end_are_refused_and_not_a_crash(self, data: Path) -> None:
        deep = os.open(data / "runs" / RUN / "work", os.O_RDONLY)
        for _ in range(MAX_DEPTH + 5):
            os.mkdir("d", dir_fd=deep)
            inner = os.open("d", os.O_RDONLY, dir_fd=deep)
            os.close(deep)
            deep = inner
        os.close(deep)
        with pytest.raises(WorkRefused):
            delete_work(data, RUN)

    def test_a_cleanup_deletes_work_and_keeps_the_evidence(self, data: Path, engine: FakeEngine) -> None:
        journal = Journal.create(data / "runs" / RUN, run_id=RUN)
        assert run(engine, journal, data).state == "clean"
        assert not (data / "runs" / RUN / "work").exists()
        assert (data / "runs" / RUN / "trials/kept").exists()

    def test_work_that_cannot_be_deleted_fails_the_cleanup(self, data: Path, engine: FakeEngine) -> None:
        work = data / "runs" / RUN / "work"
        work.rename(data / "elsewhere")
        work.symlink_to(data / "elsewhere")
        journal = Journal.create(data / "runs" / RUN, run_id=RUN)
        result = run(engine, journal, data)
        assert (result.state, result.problems) == ("failed", ("work_refused",))
        assert (data / "elsewhere/home/deep/file").exists()


def test_a_removed_lock_is_made_again_after_the_process_that_may_hold_it_was_stopped(
    journal: Journal, engine: FakeEngine, harness: Callable[[str], Launched], tmp_path: Path
) -> None:
    """The journal is whole and names what is owned, so a cleanup can finish; the old lock keeps nobody out any more."""
    owned = create_owned(engine, journal, {}, agent_request())
    child = harness(HOLDS_THE_LOCK)
    journal.record_process(child.identity, trial=1)
    (tmp_path / "recorded").touch()
    until(lambda: b"ready" in (tmp_path / "log").read_bytes())
    (journal.directory / "journal.lock").unlink()
    result = clean_up(connected(engine), journal, reason="ended")
    assert (result.state, [each.outcome for each in result.closed.stopped]) == ("clean", [Stopped.TERMINATED])
    assert not identity_is_alive(child.identity) and engine.removed == [owned.id]
    assert journal.read().fence is not None


def test_a_lost_journal_is_not_made_again_with_its_lock(journal: Journal, engine: FakeEngine) -> None:
    journal.path.unlink()
    (journal.directory / "journal.lock").unlink()
    result = clean_up(connected(engine), journal, reason="ended")
    assert (result.state, result.closed.problems) == ("failed", ("journal_corrupt",))
    assert not journal.path.exists()
