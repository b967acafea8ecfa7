"""Another engine knows nothing of what was created, and would look clean: it is unknown, and unknown is not success."""

from pathlib import Path

import pytest

from runs.containers import EngineError, create_owned
from runs.engine.ending.cleanup import clean_up
from runs.engine.host.maintenance import maintenance, tidy
from runs.engine.host.same_engine import NAME, connect_same, remember_engine, require_same
from runs.ownership import Journal, ResourceStage, Role

from .conftest import agent_request
from .fake_engine import FakeEngine


@pytest.fixture
def other() -> FakeEngine:
    return FakeEngine(id="another engine")


def test_the_remembered_engine_is_accepted_after_a_restart(engine: FakeEngine, tmp_path: Path) -> None:
    remember_engine(tmp_path, engine)
    require_same(tmp_path, FakeEngine())


def test_a_run_of_before_that_remembers_none_is_cleaned_up_as_ever(other: FakeEngine, tmp_path: Path) -> None:
    require_same(tmp_path, other)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff"])
def test_a_record_that_cannot_be_believed_accepts_no_engine(engine: FakeEngine, tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(EngineError) as raised:
        require_same(tmp_path, engine)
    assert raised.value.code == "engine_changed"


def test_a_run_is_not_clean_on_another_engine_and_is_on_its_own(
    engine: FakeEngine, other: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(tmp_path / "run", run_id="r1")
    remember_engine(journal.directory, engine)
    owned = create_owned(engine, journal, {"trial": 1}, agent_request())
    monkeypatch.setattr("runs.engine.host.same_engine.connect", lambda *_: other)
    moved = clean_up(lambda deadline: connect_same(journal.directory, 5, deadline), journal, reason="ended")
    assert (moved.state, moved.problems) == ("failed", ("engine_changed",))
    assert owned.id in engine.resources and not journal.read().resource(owned.intent.nonce).settled
    monkeypatch.setattr("runs.engine.host.same_engine.connect", lambda *_: engine)
    again = clean_up(lambda deadline: connect_same(journal.directory, 5, deadline), journal, reason="ended")
    assert again.state == "clean"
    assert engine.resources == {}


def test_a_probe_that_was_left_on_another_engine_is_not_forgotten(
    engine: FakeEngine, other: FakeEngine, tmp_path: Path
) -> None:
    left = Journal.create(tmp_path / "w1", run_id="maintenance-w1")
    remember_engine(left.directory, engine)
    create_owned(engine, left, {}, agent_request(role=Role.PROBE))
    assert tidy(tmp_path, lambda _: other) == ["w1: engine_changed"]
    with maintenance(tmp_path / "w1", "w1", lambda _: other) as journal:
        assert [r.stage for r in journal.read().resources] == [ResourceStage.CREATED]
    assert tidy(tmp_path, lambda _: engine) == [] and engine.resources == {}


def test_a_maintenance_journal_without_leftovers_may_change_its_engine(
    engine: FakeEngine, other: FakeEngine, tmp_path: Path
) -> None:
    for one in (engine, other):
        with maintenance(tmp_path / "w1", "w1", lambda _, one=one: one) as journal:
            create_owned(one, journal, {}, agent_request(role=Role.PROBE))
        assert one.resources == {}
