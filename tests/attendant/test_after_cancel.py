"""After a cancel nothing is read from an agent's container in which a process may live."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.attendant.commands import Purpose
from runs.attendant.container import ContainerIdentity
from runs.attendant.downloads import AGENT_LOGS
from runs.attendant.execs import Command, Ended
from runs.attendant.observed import ObservedFile
from runs.attendant.plan import Deadlines, Plan
from runs.attendant.session import Session
from runs.wire.failures import EngineFailed, TransferFailed
from tests.attendant.real_parts import AGENT_TMPFS, BOUNDS, TRIAL_UUID, VERIFIER_TMPFS, conduct, role_plan


class Surviving:
    """A container whose command ends only when it is interrupted; of each kill so many processes are left."""

    def __init__(self, left: list[int | Exception]) -> None:
        self.left = left
        self.running = threading.Event()

    def run(self, _command: Command, *, interrupt: Any, **_: Any) -> tuple[Ended, Any]:
        stopped = threading.Event()

        class Attachment:
            def abort(self) -> None:
                stopped.set()

        interrupt.attach(Attachment())
        self.running.set()
        assert stopped.wait(30)
        raise EngineFailed("exec.aborted", "It was cut off.")

    def kill_others(self) -> int:
        left = self.left.pop(0)
        if isinstance(left, Exception):
            raise left
        return left


@pytest.fixture
def cancelled(tmp_path: Path) -> Iterator[Callable[[list[int | Exception]], Any]]:
    observed = ObservedFile(tmp_path / "observed.jsonl")

    def after(left: list[int | Exception]) -> Any:
        plan = Plan(
            directory=tmp_path, run_id="0" * 32, trial=1, task="task", journal_directory=tmp_path,
            placeholder="placeholder", bounds=BOUNDS, conduct=conduct(),
            deadlines=Deadlines(setup=60, agent=100, verifier=30),
            roles={"agent": role_plan("a", AGENT_TMPFS), "verifier": role_plan("v", VERIFIER_TMPFS)},
        )  # fmt: skip
        container: Any = Surviving(left)
        identity = ContainerIdentity("agent", 1, "task__x__env", TRIAL_UUID)
        session = Session(container, identity, plan, observed)

        async def story() -> None:
            command = asyncio.create_task(session.execute(Purpose.SETUP, Command(("sleep",)), 60, ""))
            await asyncio.to_thread(container.running.wait, 30)
            command.cancel()
            with pytest.raises(asyncio.CancelledError):
                await command
            await session.download(AGENT_LOGS)

        return story()

    yield after
    observed.close()


@pytest.mark.parametrize("first", [3, EngineFailed("engine.kill", "It did not answer.")], ids=["some", "nobody knows"])
def test_a_container_in_which_a_process_may_live_is_killed_in_again_and_not_read(
    first: int | Exception, cancelled: Callable[[list[int | Exception]], Any]
) -> None:
    left: list[int | Exception] = [first, 2]
    with pytest.raises(TransferFailed, match="could not be stopped"):
        asyncio.run(cancelled(left))
    assert left == []


def test_a_container_in_which_nothing_is_left_is_read_at_once(
    cancelled: Callable[[list[int | Exception]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def fetch_all(session: Session, paths: list[str]) -> None:
        read.extend(paths)
        session._results = dict.fromkeys(paths)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "_fetch_all", fetch_all)
    left: list[int | Exception] = [0, 2]
    asyncio.run(cancelled(left))
    assert (left, AGENT_LOGS in read) == ([2], True)
