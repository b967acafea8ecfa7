"""A container that stands ready is handed out once, and what nobody asks for is removed."""

from collections.abc import Iterator
from typing import Any

import pytest

from runs.attendant import preloading
from runs.wire.failures import EngineFailed


class FakeContainer:
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")
        if self.fails:
            raise EngineFailed("engine.start", "It failed.")

    def discard(self) -> None:
        self.calls.append("discard")


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    yield
    preloading.discard_all()


def prepared(container: FakeContainer, session_id: str = "task__verifier__trial") -> None:
    made: Any = container
    preloading.prepare(session_id, lambda: made)


def test_a_prepared_container_is_started_and_given_to_its_session_once() -> None:
    container = FakeContainer()
    prepared(container)
    assert preloading.take("another") is None
    taken: Any = preloading.take("task__verifier__trial")
    assert taken is container
    assert preloading.take("task__verifier__trial") is None
    assert container.calls == ["start"]


def test_a_container_that_did_not_start_is_removed_and_not_given_out() -> None:
    container = FakeContainer(fails=True)
    prepared(container)
    assert preloading.take("task__verifier__trial") is None
    assert container.calls == ["start", "discard"]


def test_what_was_never_asked_for_is_removed_at_the_end() -> None:
    container = FakeContainer()
    prepared(container)
    preloading.discard_all()
    assert container.calls == ["start", "discard"]


def test_one_session_never_has_two_containers() -> None:
    first, second = FakeContainer(), FakeContainer()
    prepared(first)
    prepared(second)
    taken: Any = preloading.take("task__verifier__trial")
    assert taken is first
    assert second.calls == []
