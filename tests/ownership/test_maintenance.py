"""Containers of preflight and capability reports are owned too, and go when their maker died (design 3.2)."""

from pathlib import Path

import pytest

from runs.containers import Deadline, Engine, EngineError, create_owned
from runs.engine.host.maintenance import maintenance, tidy
from runs.ownership import JournalBusy, JournalCorrupt, ResourceStage, Role

from .conftest import agent_request
from .fake_engine import FakeEngine


def probe(engine: FakeEngine, root: Path) -> str:
    """A probe container whose maker came to nothing more, as if it had been killed."""
    with maintenance(root / "w1", "w1", lambda _: engine) as journal:
        owned = create_owned(engine, journal, {}, agent_request(role=Role.PROBE))
        journal.directory.joinpath("journal.json").rename(root / "kept.json")
    (root / "kept.json").rename(root / "w1/journal.json")
    return owned.id


def test_a_container_that_was_forgotten_goes_at_the_end_of_the_use(engine: FakeEngine, tmp_path: Path) -> None:
    with maintenance(tmp_path / "w1", "w1", lambda _: engine) as journal:
        create_owned(engine, journal, {}, agent_request(role=Role.PROBE))
    assert engine.resources == {}


def test_a_container_of_one_that_died_goes_before_the_next_use(engine: FakeEngine, tmp_path: Path) -> None:
    left = probe(engine, tmp_path)
    assert left in engine.resources
    with maintenance(tmp_path / "w1", "w1", lambda _: engine) as journal:
        assert engine.resources == {}
        assert [r.stage for r in journal.read().resources] == [ResourceStage.REMOVED]


def test_tidying_removes_what_nobody_uses(engine: FakeEngine, tmp_path: Path) -> None:
    probe(engine, tmp_path)
    assert tidy(tmp_path, lambda _: engine) == []
    assert engine.resources == {}


def test_tidying_leaves_what_is_in_use(engine: FakeEngine, tmp_path: Path) -> None:
    with maintenance(tmp_path / "w1", "w1", lambda _: engine) as journal:
        owned = create_owned(engine, journal, {}, agent_request(role=Role.PROBE))
        assert tidy(tmp_path, lambda _: engine) == []
        assert owned.id in engine.resources


def test_two_never_use_it_at_once(engine: FakeEngine, tmp_path: Path) -> None:
    with maintenance(tmp_path / "w1", "w1", lambda _: engine), pytest.raises(JournalBusy) as raised:
        maintenance(tmp_path / "w1", "w1", lambda _: engine, wait_s=0).__enter__()
    assert raised.value.code == "maintenance_busy"


def test_an_engine_that_cannot_be_reached_is_a_problem_with_a_code(engine: FakeEngine, tmp_path: Path) -> None:
    probe(engine, tmp_path)

    def refused(_: Deadline) -> Engine:
        raise EngineError("engine_unreachable", "", "")

    assert tidy(tmp_path, refused) == ["w1: engine_unreachable"]


def test_a_corrupt_maintenance_journal_is_seen_and_kept(engine: FakeEngine, tmp_path: Path) -> None:
    probe(engine, tmp_path)
    (tmp_path / "w1/journal.json").write_bytes(b"{")
    assert tidy(tmp_path, lambda _: engine) == ["w1: journal_corrupt"]
    with pytest.raises(JournalCorrupt):
        maintenance(tmp_path / "w1", "w1", lambda _: engine).__enter__()
    assert (tmp_path / "w1/journal.json").read_bytes() == b"{"


def test_without_leftovers_tidying_asks_no_engine_and_a_use_needs_none(engine: FakeEngine, tmp_path: Path) -> None:
    def unreachable(_: Deadline) -> Engine:
        raise EngineError("engine_unreachable", "", "")

    with maintenance(tmp_path / "w1", "w1", unreachable):
        pass
    assert tidy(tmp_path, lambda _: pytest.fail("the engine was asked")) == []
