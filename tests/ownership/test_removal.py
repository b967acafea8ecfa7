"""Only what is ours is removed, only by exact id, and unknown is never success (design 4)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs.containers import (
    CleanupReport,
    Deadline,
    EngineError,
    OwnedContainer,
    create_owned,
    create_owned_network,
    find_owned,
    reconcile,
    remove_owned,
    start_owned,
    still_present,
)
from runs.ownership import Fenced, Journal, Outcome, ResourceStage, Role

from .conftest import agent_request
from .fake_engine import FakeEngine, Fault


def made(engine: FakeEngine, journal: Journal) -> OwnedContainer:
    return create_owned(engine, journal, {"trial": 1}, agent_request())


def settle(engine: FakeEngine, journal: Journal) -> CleanupReport:
    return reconcile(engine, journal, deadline=Deadline(monotonic=engine.monotonic, sleep=engine.sleep))


def only(report: CleanupReport) -> tuple[Outcome, str | None]:
    assert len(report.resources) == 1
    return report.resources[0].outcome, report.resources[0].detail


class TestCreating:
    def test_a_container_is_journaled_created_and_started_in_that_order(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        owned = made(engine, journal)
        assert journal.read().resource(owned.intent.nonce).stage is ResourceStage.CREATED
        start_owned(engine, journal, owned)
        assert journal.read().resource(owned.intent.nonce).stage is ResourceStage.STARTED
        assert engine.started == [owned.id]

    def test_no_request_reaches_the_engine_after_the_fence(self, engine: FakeEngine, journal: Journal) -> None:
        owned = made(engine, journal)
        journal.fence("cancelled")
        before = list(engine.calls)
        with pytest.raises(Fenced):
            made(engine, journal)
        with pytest.raises(Fenced):
            start_owned(engine, journal, owned)
        with pytest.raises(Fenced):
            create_owned_network(engine, journal, internal=True)
        assert engine.calls == before

    @pytest.mark.parametrize(
        ("fault", "code", "stage"),
        [
            (Fault.ERROR, "engine_failed", ResourceStage.UNKNOWN),
            (Fault.ERROR_DONE, "engine_failed", ResourceStage.UNKNOWN),
            (Fault.SILENT_LATE, "engine_timeout", ResourceStage.UNKNOWN),
            (Fault.REFUSED, "engine_unreachable", ResourceStage.UNKNOWN),
            (Fault.CONFLICT, "engine_conflict", ResourceStage.UNKNOWN),
        ],
    )
    def test_a_create_without_an_answer_is_unknown(
        self, engine: FakeEngine, journal: Journal, fault: Fault, code: str, stage: ResourceStage
    ) -> None:
        engine.script("create", fault)
        with pytest.raises(EngineError) as raised:
            made(engine, journal)
        assert raised.value.code == code
        assert [r.stage for r in journal.read().resources] == [stage]

    def test_names_come_from_the_nonce_so_that_one_intent_never_makes_two(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        first, second = made(engine, journal), made(engine, journal)
        names = {engine.resources[owned.id]["Name"] for owned in (first, second)}
        assert names == {f"benchsite-{owned.intent.nonce}" for owned in (first, second)}


class TestRemoving:
    def test_removed_is_said_after_the_engine_answered_404(self, engine: FakeEngine, journal: Journal) -> None:
        owned = made(engine, journal)
        assert remove_owned(engine, journal, owned.intent.nonce) is Outcome.REMOVED
        assert [call for call, what in engine.calls if what == owned.id] == ["inspect", "remove", "inspect"]
        assert journal.read().resource(owned.intent.nonce).settled

    def test_absent_is_success(self, engine: FakeEngine, journal: Journal) -> None:
        owned = made(engine, journal)
        del engine.resources[owned.id]
        report = settle(engine, journal)
        assert report.clean and only(report) == (Outcome.ABSENT, None)

    def test_a_second_pass_asks_the_engine_nothing(self, engine: FakeEngine, journal: Journal) -> None:
        made(engine, journal)
        settle(engine, journal)
        engine.calls.clear()
        assert settle(engine, journal) == CleanupReport(())
        assert engine.calls == []

    @pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.SILENT_LATE, Fault.ERROR_DONE, Fault.ERROR])
    def test_a_remove_without_a_clear_answer_is_looked_at_again_until_404(
        self, engine: FakeEngine, journal: Journal, fault: Fault
    ) -> None:
        owned = made(engine, journal)
        engine.script("remove", fault)
        report = settle(engine, journal)
        assert report.clean and only(report) == (Outcome.REMOVED, None)
        assert owned.id not in engine.resources

    def test_a_remove_that_says_yes_while_the_container_lives_is_unknown(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        owned = made(engine, journal)
        engine.script("remove", *[Fault.LIES] * 1000)
        report = settle(engine, journal)
        assert not report.clean
        assert only(report) == (Outcome.UNKNOWN, "the engine said that it was removed, but it is still there")
        engine.heal()
        assert settle(engine, journal).clean
        assert owned.id not in engine.resources

    def test_an_engine_that_went_away_leaves_unknown_within_the_bound(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        made(engine, journal)
        engine.script("inspect", *[Fault.REFUSED] * 1000)
        report = settle(engine, journal)
        assert [r.outcome for r in report.left] == [Outcome.UNKNOWN]
        assert 60 <= engine.now < 66

    def test_one_silent_container_does_not_keep_the_others_alive(self, engine: FakeEngine, journal: Journal) -> None:
        stuck, others = made(engine, journal), [made(engine, journal) for _ in range(3)]
        original = engine.inspect_container

        def inspect(container: str) -> dict[str, object]:
            if container == stuck.id:
                engine.sleep(5)
                raise TimeoutError
            return original(container)

        engine.inspect_container = inspect  # type: ignore[method-assign]
        report = settle(engine, journal)
        assert [r.id for r in report.left] == [stuck.id]
        assert {r.id for r in report.removed} == {owned.id for owned in others}

    def test_all_leftovers_are_named(self, engine: FakeEngine, journal: Journal) -> None:
        owned = {made(engine, journal).id for _ in range(2)}
        engine.script("inspect", *[Fault.ERROR] * 1000)
        report = settle(engine, journal)
        assert {r.id for r in report.left} == owned
        assert all(r.detail for r in report.left)

    def test_a_journal_that_cannot_be_written_fails_the_cleanup_but_keeps_nothing_alive(
        self, engine: FakeEngine, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        owned = made(engine, journal)

        def full_disk(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full_disk)
        report = settle(engine, journal)
        assert owned.id not in engine.resources
        assert not report.clean and report.problems == ("os_OSError",)


class TestStrangers:
    def test_an_id_whose_labels_are_not_ours_is_left_and_fails(self, engine: FakeEngine, journal: Journal) -> None:
        owned = made(engine, journal)
        labels = {**owned.intent.labels, "benchsite.owner": "f" * 32}
        engine.resources[owned.id]["Config"]["Labels"] = labels
        report = settle(engine, journal)
        assert [r.outcome for r in report.left] == [Outcome.FOREIGN]
        assert ("remove", owned.id) not in engine.calls
        assert journal.read().resource(owned.intent.nonce).stage is ResourceStage.FOREIGN

    @pytest.mark.parametrize("labels", [None, {}, {"benchsite.run": "r1"}])
    def test_missing_labels_are_not_ours(
        self, engine: FakeEngine, journal: Journal, labels: dict[str, str] | None
    ) -> None:
        owned = made(engine, journal)
        engine.resources[owned.id]["Config"]["Labels"] = labels
        assert [r.outcome for r in settle(engine, journal).left] == [Outcome.FOREIGN]
        assert owned.id in engine.resources

    def test_an_answer_about_another_id_is_not_ours(self, engine: FakeEngine, journal: Journal) -> None:
        owned = made(engine, journal)
        engine.resources[owned.id]["Id"] = owned.id[:12]
        assert [r.outcome for r in settle(engine, journal).left] == [Outcome.FOREIGN]
        assert engine.removed == []

    def test_a_list_that_returns_strangers_removes_none(self, engine: FakeEngine, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        stranger = engine.place("container", {**intent.labels, "benchsite.nonce": "f" * 32})
        engine.containers = lambda **_: [{"Id": stranger, "Labels": engine.resources[stranger]["Labels"]}]  # type: ignore[method-assign]
        report = settle(engine, journal)
        assert only(report)[0] is Outcome.ABSENT
        assert stranger in engine.resources

    def test_two_with_one_tuple_are_both_left(self, engine: FakeEngine, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        both = [engine.place("container", intent.labels) for _ in range(2)]
        assert [r.outcome for r in settle(engine, journal).left] == [Outcome.FOREIGN]
        assert set(both) <= set(engine.resources)

    @pytest.mark.parametrize("field", ["run_id", "owner", "nonce"])
    def test_an_incomplete_tuple_is_refused_before_the_engine_is_asked(
        self, engine: FakeEngine, journal: Journal, field: str
    ) -> None:
        changes: dict[str, Any] = {field: ""}
        intent = replace(journal.intend(Role.AGENT), **changes)
        with pytest.raises(ValueError, match="complete label tuple"):
            find_owned(engine, intent)
        assert engine.calls == []


class TestLateCreates:
    @pytest.mark.parametrize("late_s", [0.2, 1.0, 2.5])
    def test_a_create_that_arrives_late_is_found_and_removed(
        self, engine: FakeEngine, journal: Journal, late_s: float
    ) -> None:
        engine.late_s = late_s
        engine.script("create", Fault.SILENT_LATE)
        with pytest.raises(EngineError):
            made(engine, journal)
        engine.now = 0.0
        report = settle(engine, journal)
        assert report.clean and only(report)[0] is Outcome.REMOVED
        assert engine.resources == {}

    def test_a_client_that_died_after_the_create_leaves_its_container_to_be_found(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        intent = journal.intend(Role.AGENT)
        engine.place("container", intent.labels)
        journal.fence("interrupted")
        assert settle(engine, journal).clean
        assert engine.resources == {}
        assert journal.read().resource(intent.nonce).resource_id in engine.removed

    def test_an_intent_is_absent_only_after_several_looks_over_some_seconds(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        journal.intend(Role.AGENT)
        report = settle(engine, journal)
        assert only(report)[0] is Outcome.ABSENT
        assert engine.now >= 3
        assert engine.calls.count(("list", "container")) >= 4

    def test_a_create_that_arrives_after_the_pass_is_found_by_the_next(
        self, engine: FakeEngine, journal: Journal
    ) -> None:
        intent = journal.intend(Role.AGENT)
        assert settle(engine, journal).clean
        engine.place("container", intent.labels)
        engine.sleep(30)
        assert settle(engine, journal).clean
        assert engine.resources == {}

    def test_a_create_that_the_engine_refused_is_looked_for_once(self, engine: FakeEngine, journal: Journal) -> None:
        intent = journal.intend(Role.AGENT)
        with journal.creating(intent) as slot:
            slot.refuse("no such image")
        assert settle(engine, journal).clean
        assert engine.calls == [("list", "container")]
        assert journal.read().resource(intent.nonce).settled

    def test_looks_that_got_no_answer_do_not_count(self, engine: FakeEngine, journal: Journal) -> None:
        journal.intend(Role.AGENT)
        engine.script("list", *[Fault.ERROR] * 1000)
        assert [r.outcome for r in settle(engine, journal).left] == [Outcome.UNKNOWN]


class TestNetworks:
    def test_networks_go_after_their_containers(self, engine: FakeEngine, journal: Journal) -> None:
        network = create_owned_network(engine, journal, internal=True)
        owned = made(engine, journal)
        assert settle(engine, journal).clean
        assert engine.removed == [owned.id, network.id]

    def test_a_network_in_use_by_a_stranger_is_left_and_fails(self, engine: FakeEngine, journal: Journal) -> None:
        network, stranger = create_owned_network(engine, journal, internal=True), "e" * 64
        engine.resources[network.id]["Containers"] = {stranger: {}}
        report = settle(engine, journal)
        assert only(report) == (Outcome.UNKNOWN, f"the network is in use by: {stranger}")
        assert engine.now < 10
        assert network.id in engine.resources
        engine.resources[network.id]["Containers"] = {}
        assert settle(engine, journal).clean

    def test_a_network_created_late_is_found_too(self, engine: FakeEngine, journal: Journal) -> None:
        engine.script("create", Fault.SILENT_DONE)
        with pytest.raises(EngineError):
            create_owned_network(engine, journal, internal=True)
        assert settle(engine, journal).clean
        assert engine.resources == {}

    def test_what_the_engine_still_lists_is_named(self, engine: FakeEngine, journal: Journal) -> None:
        network, owned = create_owned_network(engine, journal, internal=True), made(engine, journal)
        assert still_present(engine, journal) == [("network", network.id), ("agent", owned.id)]


SHAPES: dict[str, Callable[[CleanupReport], object]] = {
    "found": lambda report: len(report.found),
    "removed": lambda report: len(report.removed),
    "left": lambda report: len(report.left),
}


def test_the_report_counts_found_removed_and_left(engine: FakeEngine, journal: Journal, tmp_path: Path) -> None:
    made(engine, journal)
    foreign = made(engine, journal)
    engine.resources[foreign.id]["Config"]["Labels"] = {}
    report = settle(engine, journal)
    assert {name: count(report) for name, count in SHAPES.items()} == {"found": 2, "removed": 1, "left": 1}
