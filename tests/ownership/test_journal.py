"""The journal keeps what it was told, closes when fenced, and never believes a file that it cannot read."""

import json
import multiprocessing
import os
import signal
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.ownership import (
    MAX_BYTES,
    MAX_CONTAINERS,
    MAX_NETWORKS,
    Fenced,
    Journal,
    JournalBusy,
    JournalCorrupt,
    JournalError,
    JournalExists,
    JournalFull,
    Outcome,
    ProcessIdentity,
    ResourceStage,
    Role,
    process_identity,
)
from runs.ownership.document import MAX_TEXT, JournalDocument
from runs.ownership.format import dump, load
from runs.ownership.storage import LockBusy, flocked

from .fake_engine import FakeEngine, new_id
from .test_processes import until

FORK = multiprocessing.get_context("fork")


def created(journal: Journal, role: Role = Role.AGENT) -> str:
    """The nonce of a resource whose id is in the journal."""
    intent = journal.intend(role, kind="network" if role is Role.NETWORK else "container")
    with journal.creating(intent) as slot:
        slot.persist(new_id())
    return intent.nonce


def fill(journal: Journal) -> list[str]:
    """All the resources that one journal holds, each with the longest names that it takes."""
    worst = '"' * MAX_TEXT
    facts = {"session_id": worst, "trial_uuid": worst, "image_id": worst, "trial": 10**9}
    found = [journal.intend(Role.VERIFIER, **facts).nonce for _ in range(MAX_CONTAINERS)]  # type: ignore[arg-type]
    return found + [journal.intend(Role.NETWORK, kind="network").nonce for _ in range(MAX_NETWORKS)]


class TestMaking:
    def test_a_new_journal_is_private_and_empty(self, tmp_path: Path) -> None:
        journal = Journal.create(tmp_path / "run", run_id="r1")
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()} == {0o600}
        document = journal.read()
        assert (document.run_id, document.resources, document.fence) == ("r1", (), None)
        assert len(document.owner) == 32

    def test_two_journals_never_share_their_ownership_id(self, tmp_path: Path) -> None:
        first, second = (Journal.create(tmp_path / name, run_id="r1") for name in ("a", "b"))
        assert first.read().owner != second.read().owner

    def test_an_existing_journal_is_not_replaced(self, journal: Journal) -> None:
        before = journal.path.read_bytes()
        with pytest.raises(JournalExists):
            Journal.create(journal.directory, run_id="r1")
        assert journal.path.read_bytes() == before

    def test_a_crash_before_the_first_write_can_be_repeated(self, tmp_path: Path) -> None:
        (tmp_path / "journal.lock").touch()
        assert Journal.create(tmp_path, run_id="r1").read().run_id == "r1"

    def test_a_run_id_that_a_label_could_not_carry_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(JournalCorrupt):
            Journal.create(tmp_path, run_id="r1\nbenchsite.owner=x")
        assert not (tmp_path / "journal.json").exists()


class TestIntents:
    def test_an_intent_carries_the_complete_label_tuple(self, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT, trial=1, session_id="t__env", trial_uuid="u")
        assert intent.labels == {
            "benchsite.run": "r1",
            "benchsite.owner": journal.read().owner,
            "benchsite.nonce": intent.nonce,
            "benchsite.role": "agent",
        }
        assert journal.read().resource(intent.nonce).stage is ResourceStage.INTENDED

    def test_a_created_resource_has_its_exact_id(self, journal: Journal) -> None:
        nonce = created(journal)
        resource = journal.read().resource(nonce)
        assert resource.stage is ResourceStage.CREATED
        assert resource.resource_id is not None and len(resource.resource_id) == 64

    @pytest.mark.parametrize(
        "bad",
        ["", "a" * 63, "a" * 65, "A" * 64, "name", "a" * 12],
        ids=lambda bad: f"{len(bad)}{bad[:1]}",
    )
    def test_an_id_that_is_not_64_hex_characters_is_refused(self, journal: Journal, bad: str) -> None:
        intent = journal.intend(Role.AGENT)
        with pytest.raises(JournalError) as raised, journal.creating(intent) as slot:
            slot.persist(bad)
        assert raised.value.code == "id_not_full"
        assert journal.read().resource(intent.nonce).stage is ResourceStage.UNKNOWN

    def test_an_intent_is_used_once(self, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        with journal.creating(intent) as slot:
            slot.persist(new_id())
        with pytest.raises(JournalError) as raised, journal.creating(intent):
            pytest.fail("the block must not be entered")
        assert raised.value.code == "intent_spent"

    def test_a_block_that_fails_leaves_its_intent_unknown(self, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        with pytest.raises(TimeoutError), journal.creating(intent):
            raise TimeoutError
        assert journal.read().resource(intent.nonce).stage is ResourceStage.UNKNOWN

    def test_a_block_that_was_refused_leaves_its_intent_failed(self, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        with journal.creating(intent) as slot:
            slot.refuse("no such image")
        assert journal.read().resource(intent.nonce).stage is ResourceStage.FAILED

    def test_one_id_never_stands_for_two_resources(self, journal: Journal) -> None:
        nonce = created(journal)
        first = journal.read().resource(nonce).resource_id
        assert first is not None
        intent = journal.intend(Role.AGENT)
        with pytest.raises(JournalError) as raised, journal.creating(intent) as slot:
            slot.persist(first)
        assert raised.value.code == "id_conflict"

    @pytest.mark.parametrize("bad", ["x" * (MAX_TEXT + 1), "tab\t", "é"])
    def test_a_name_that_cannot_be_kept_as_it_is_is_refused(self, journal: Journal, bad: str) -> None:
        with pytest.raises(JournalError) as raised:
            journal.intend(Role.AGENT, session_id=bad)
        assert raised.value.code == "intent_refused"
        assert journal.read().resources == ()

    def test_a_network_and_its_role_belong_together(self, journal: Journal) -> None:
        for role, kind in ((Role.NETWORK, "container"), (Role.AGENT, "network")):
            with pytest.raises(JournalError):
                journal.intend(role, kind=kind)  # type: ignore[arg-type]


class TestFence:
    def test_after_the_fence_nothing_is_intended_created_or_started(self, journal: Journal) -> None:
        intent, made = journal.intend(Role.AGENT), created(journal)
        journal.fence("cancelled")
        with pytest.raises(Fenced):
            journal.check_open()
        with pytest.raises(Fenced):
            journal.intend(Role.AGENT)
        with pytest.raises(Fenced), journal.creating(intent):
            pytest.fail("a create was let through")
        with pytest.raises(Fenced), journal.starting(made):
            pytest.fail("a start was let through")
        with pytest.raises(Fenced):
            journal.record_process(identity(), trial=1)

    def test_an_intent_that_the_fence_stopped_was_never_asked_for(self, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        journal.fence("cancelled")
        with pytest.raises(Fenced), journal.creating(intent):
            pass
        assert journal.read().resource(intent.nonce).stage is ResourceStage.FAILED

    def test_the_first_reason_stays(self, journal: Journal) -> None:
        journal.fence("cancelled")
        journal.fence("deadline")
        fence = journal.read().fence
        assert fence is not None and fence.reason == "cancelled"

    def test_late_ids_stages_and_outcomes_are_recorded_after_the_fence(self, journal: Journal) -> None:
        nonce, late = journal.intend(Role.AGENT).nonce, new_id()
        journal.fence("cancelled")
        journal.adopt(nonce, late)
        journal.mark(nonce, ResourceStage.STOPPED)
        journal.record_outcome(nonce, Outcome.REMOVED)
        resource = journal.read().resource(nonce)
        assert (resource.resource_id, resource.stage, resource.attempts) == (late, ResourceStage.REMOVED, 1)

    def test_a_fence_waits_for_a_create_and_then_holds(self, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        with journal.creating(intent) as slot:
            with pytest.raises(JournalBusy):
                Journal(journal.directory).fence("cancelled", wait_s=0)
            slot.persist(new_id())
        journal.fence("cancelled")
        with pytest.raises(Fenced), journal.starting(intent.nonce):
            pass


class TestOutcomes:
    def test_what_was_answered_with_404_stays_gone_and_is_counted(self, journal: Journal) -> None:
        nonce = created(journal)
        journal.record_outcome(nonce, Outcome.REMOVED)
        journal.record_outcome(nonce, Outcome.UNKNOWN, "a slower observer")
        journal.mark(nonce, ResourceStage.STARTED)
        resource = journal.read().resource(nonce)
        assert (resource.outcome, resource.stage, resource.attempts) == (Outcome.REMOVED, ResourceStage.REMOVED, 2)

    def test_an_intent_that_was_not_found_settles_only_after_a_later_look(
        self, journal: Journal, engine: FakeEngine
    ) -> None:
        nonce = journal.intend(Role.AGENT).nonce
        for passed, settled in ((0, False), (1, False), (30, True)):
            engine.sleep(passed)
            journal.record_outcome(nonce, Outcome.ABSENT)
            assert journal.read().resource(nonce).settled is settled

    def test_a_long_lived_journal_forgets_only_what_is_settled(self, journal: Journal) -> None:
        gone, unknown, alive = created(journal), created(journal), created(journal)
        journal.record_outcome(gone, Outcome.REMOVED)
        journal.record_outcome(unknown, Outcome.UNKNOWN)
        Journal.open_or_create(journal.directory, run_id="r1")
        assert [r.nonce for r in journal.read().resources] == [unknown, alive]

    def test_a_long_lived_journal_never_fills(self, journal: Journal) -> None:
        for _ in range(3 * MAX_CONTAINERS):
            journal = Journal.open_or_create(journal.directory, run_id="r1")
            journal.record_outcome(created(journal, Role.PROBE), Outcome.REMOVED)


class TestBounds:
    def test_containers_and_networks_are_bounded(self, journal: Journal) -> None:
        fill(journal)
        with pytest.raises(JournalFull):
            journal.intend(Role.AGENT)
        with pytest.raises(JournalFull):
            journal.intend(Role.NETWORK, kind="network")

    def test_a_full_journal_still_takes_ids_the_fence_and_every_outcome(self, journal: Journal) -> None:
        worst = '"' * 5000
        for nonce in fill(journal):
            journal.adopt(nonce, new_id())
            journal.record_outcome(nonce, Outcome.UNKNOWN, worst)
        journal.fence(worst)
        assert journal.read().fence is not None
        assert journal.path.stat().st_size <= MAX_BYTES

    def test_a_bound_of_bytes_leaves_room_for_outcomes_and_the_fence(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("runs.ownership.journal.MAX_BYTES", 6000)
        worst = '"' * 5000
        intents = []
        with pytest.raises(JournalFull) as raised:
            while True:
                intents.append(journal.intend(Role.AGENT))
        assert raised.value.detail == "bytes"
        for intent in intents:
            journal.adopt(intent.nonce, new_id())
            journal.record_outcome(intent.nonce, Outcome.UNKNOWN, worst)
        journal.fence(worst)
        assert journal.path.stat().st_size <= 6000

    def test_sixteen_usual_entries_are_small(self, journal: Journal) -> None:
        for _ in range(MAX_CONTAINERS):
            intent = journal.intend(
                Role.VERIFIER,
                trial=1,
                session_id="t" * 60,
                trial_uuid="u" * 36,
                image_id="sha256:" + "a" * 64,
            )
            journal.adopt(intent.nonce, new_id())
        assert journal.path.stat().st_size < 12 * 1024

    def test_processes_are_bounded(self, journal: Journal) -> None:
        with pytest.raises(JournalFull):
            for ticks in range(100):
                journal.record_process(replace(identity(), start_ticks=ticks), trial=1)


def identity() -> ProcessIdentity:
    found = process_identity(os.getpid())
    assert found is not None
    return found


class TestProcesses:
    def test_creating_needs_the_recorded_process(self, journal: Journal) -> None:
        mine = Journal(journal.directory, process=os.getpid())
        intent = mine.intend(Role.AGENT)
        with pytest.raises(JournalError) as raised, mine.creating(intent):
            pytest.fail("a stranger's create was let through")
        assert raised.value.code == "process_not_owned"
        mine.record_process(identity(), trial=1)
        with mine.creating(mine.intend(Role.AGENT)) as slot:
            slot.persist(new_id())

    @pytest.mark.parametrize("field", ["start_ticks", "pgid", "sid"])
    def test_another_process_with_the_same_pid_is_not_the_recorded_one(self, journal: Journal, field: str) -> None:
        mine = identity()
        journal.record_process(replace(mine, **{field: getattr(mine, field) + 1}), trial=1)
        with pytest.raises(JournalError):
            journal.require_process(os.getpid())

    def test_recording_twice_keeps_one(self, journal: Journal) -> None:
        journal.record_process(identity(), trial=1)
        journal.record_process(identity(), trial=1)
        assert len(journal.read().processes) == 1


def with_text(change: Callable[[str], str]) -> Callable[[bytes], bytes]:
    return lambda data: change(data.decode()).encode()


def with_document(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    def apply(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return json.dumps(document).encode()

    return apply


def encoded_as(name: str, data: bytes) -> bytes:
    """Each of these Python's own reader takes as bytes."""
    changed = data.decode().encode(name)
    assert json.loads(changed) == json.loads(data)
    return changed


CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-20],
    "not utf-8": lambda data: data[:-1] + b"\xff}",
    "oversized": lambda data: data + b" " * MAX_BYTES,
    "a list": lambda data: b"[]",
    "nested": lambda data: b"[" * 60_000,
    **{f"in {name}": partial(encoded_as, name) for name in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")},
    "thousands of lists": lambda data: b"[" + b"[]," * 20_000 + b"[]]",
    "not a number": with_text(lambda text: text.replace('"attempts":0', '"attempts":NaN')),
    "duplicate key": with_text(lambda text: text.replace('"fence":', '"fence":null,"fence":')),
    "other schema": with_document(lambda d: d.update(schema="anvil-serving.benchmark-owned-resources/v2")),
    "extra field": with_document(lambda d: d.update(extra=1)),
    "missing field": with_document(lambda d: d.pop("fence")),
    "short id": with_document(lambda d: d["resources"][0].update(resource_id="a" * 63)),
    "no nonce": with_document(lambda d: d["resources"][0].update(nonce="")),
    "unknown role": with_document(lambda d: d["resources"][0].update(role="oracle")),
    "unknown stage": with_document(lambda d: d["resources"][0].update(stage="lost")),
    "wrong kind": with_document(lambda d: d["resources"][0].update(kind="network")),
    "boolean count": with_document(lambda d: d["resources"][0].update(attempts=True)),
    "text as count": with_document(lambda d: d["resources"][0].update(attempts="1")),
    "time without zone": with_document(lambda d: d.update(created_at="2026-01-01T00:00:00")),
    "no time": with_document(lambda d: d["resources"][0].update(changed_at="yesterday")),
    "nonce twice": with_document(lambda d: d["resources"].append(d["resources"][0])),
    "too many": with_document(lambda d: d.update(resources=d["resources"] * 30)),
    "fence as text": with_document(lambda d: d.update(fence="yes")),
    "process 1": with_document(
        lambda d: d.update(processes=[{"trial": 1, "pid": 1, "start_ticks": 1, "pgid": 1, "sid": 1, "boot_id": "b"}])
    ),
}


class TestCorruption:
    @pytest.mark.parametrize("name", CORRUPTIONS)
    def test_a_corrupt_journal_blocks_everything_and_is_kept(self, journal: Journal, name: str) -> None:
        intent = journal.intend(Role.AGENT)
        corrupted = CORRUPTIONS[name](journal.path.read_bytes())
        journal.path.write_bytes(corrupted)
        for use in (
            lambda: journal.intend(Role.AGENT),
            lambda: journal.fence("cancelled"),
            lambda: journal.record_outcome(intent.nonce, Outcome.REMOVED),
            lambda: journal.creating(intent).__enter__(),
            lambda: journal.check_open(),
            lambda: Journal.open_or_create(journal.directory, run_id="r1"),
        ):
            with pytest.raises(JournalCorrupt) as raised:
                use()
            assert raised.value.code == "journal_corrupt"
        assert journal.path.read_bytes() == corrupted

    @pytest.mark.parametrize("name", ["journal.json", "journal.lock"])
    def test_a_lost_file_is_a_visible_failure(self, journal: Journal, name: str) -> None:
        (journal.directory / name).unlink()
        with pytest.raises(JournalCorrupt):
            journal.intend(Role.AGENT)
        assert not (journal.directory / name).exists()

    def test_a_link_in_the_place_of_the_journal_is_not_followed(self, journal: Journal, tmp_path: Path) -> None:
        journal.path.rename(tmp_path / "elsewhere.json")
        journal.path.symlink_to(tmp_path / "elsewhere.json")
        with pytest.raises(JournalCorrupt):
            journal.read()

    @given(data=st.binary(max_size=300))
    def test_any_bytes_load_or_are_corrupt(self, data: bytes) -> None:
        with pytest.raises(JournalCorrupt):
            load(data)

    @given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
    def test_one_changed_byte_is_never_a_crash(self, position: int, byte: int) -> None:
        data = bytearray(SAMPLE)
        data[position % len(data)] = byte
        try:
            document = load(bytes(data))
        except JournalCorrupt:
            return
        assert load(dump(document)) == document


SAMPLE = dump(JournalDocument("r1", "0" * 32, "2026-01-01T00:00:00.000000Z"))


class TestAtomicity:
    @pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
    def test_a_write_that_fails_leaves_the_old_journal(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        before = journal.path.read_bytes()

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(step, fail)
            with pytest.raises(OSError, match="No space"):
                journal.intend(Role.AGENT)
        assert journal.path.read_bytes() == before
        assert journal.intend(Role.AGENT).role is Role.AGENT

    def test_file_and_directory_are_synced_around_the_rename(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order: list[str] = []
        fsync, rename = os.fsync, Path.replace

        def spied_fsync(descriptor: int) -> None:
            order.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
            fsync(descriptor)

        def spied_rename(self: Path, target: Path) -> Path:
            order.append("rename")
            return rename(self, target)

        monkeypatch.setattr("os.fsync", spied_fsync)
        monkeypatch.setattr("pathlib.Path.replace", spied_rename)
        journal.intend(Role.AGENT)
        assert order == ["file", "rename", "directory"]


def _hold_lock(directory: Path, ready: Any) -> None:
    with Journal(directory)._locked():
        ready.set()
        signal.pause()


def _take_the_lock_again_and_again(directory: Path, held: Any, go_on: Any) -> None:
    journal = Journal(directory)
    with suppress(Fenced):
        with suppress(TimeoutError), journal.creating(journal.intend(Role.PROBE)):
            held.set()
            go_on.wait(60)
            raise TimeoutError
        for _ in range(8):
            journal.intend(Role.PROBE)


def _somebody_waits(directory: Path) -> bool:
    """Whether somebody stands in the turnstile before the lock."""
    try:
        with flocked(directory, 0):
            return False
    except LockBusy:
        return True


def _create_until_fenced(directory: Path, trace: Path) -> None:
    journal = Journal(directory)
    descriptor = os.open(trace, os.O_WRONLY | os.O_APPEND)
    try:
        while True:
            intent = journal.intend(Role.PROBE)
            with journal.creating(intent) as slot:
                os.write(descriptor, b"c")
                slot.persist(new_id())
            with journal.starting(intent.nonce):
                os.write(descriptor, b"s")
            journal.record_outcome(intent.nonce, Outcome.REMOVED)
            journal.compact()
    except Fenced:
        pass


class TestProcessesAtOnce:
    def test_a_killed_holder_frees_the_lock(self, journal: Journal) -> None:
        ready = FORK.Event()
        holder = FORK.Process(target=_hold_lock, args=(journal.directory, ready))
        holder.start()
        assert ready.wait(60)
        with pytest.raises(JournalBusy):
            journal.fence("cancelled", wait_s=0.05)
        holder.kill()
        journal.fence("cancelled", wait_s=10)
        holder.join()
        assert journal.read().fence is not None

    def test_one_that_takes_the_lock_again_and_again_does_not_keep_the_fence_out(self, journal: Journal) -> None:
        held, go_on = FORK.Event(), FORK.Event()
        child = FORK.Process(target=_take_the_lock_again_and_again, args=(journal.directory, held, go_on))
        child.start()
        assert held.wait(60)
        fencing = threading.Thread(target=journal.fence, args=("cancelled",), kwargs={"wait_s": 60})
        fencing.start()
        try:
            until(lambda: _somebody_waits(journal.directory))
        finally:
            go_on.set()
            fencing.join()
            child.join()
        document = journal.read()
        assert (child.exitcode, len(document.resources), document.fence is not None) == (0, 1, True)

    @pytest.mark.parametrize("round_", range(5))
    def test_no_create_or_start_follows_the_fence(self, journal: Journal, tmp_path: Path, round_: int) -> None:
        trace = tmp_path / "trace"
        trace.touch()
        children = [FORK.Process(target=_create_until_fenced, args=(journal.directory, trace)) for _ in range(4)]
        for child in children:
            child.start()
        while trace.stat().st_size < 20 + 7 * round_ and all(child.is_alive() for child in children):
            pass
        journal.fence("cancelled")
        at_fence = trace.stat().st_size
        for child in children:
            child.join()
        assert trace.stat().st_size == at_fence
        assert [child.exitcode for child in children] == [0, 0, 0, 0]
