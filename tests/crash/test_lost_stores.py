"""Queue, database or worker go away while an agent works: the run ends truthfully, and once."""

import socket
import time
from collections.abc import Iterator

import pytest

from tests.crash.own_database import PORT, OwnDatabase, own_database
from tests.crash.rig import Rig, statuses, with_database
from tests.crash.sentinels import Sentinels
from tests.engine.site import wait_until

pytestmark = pytest.mark.harbor_compatibility
TRULY_FINISHED = ("finished", "passed", "clean")


def waiting_run(rig: Rig) -> str:
    """A run whose agent waits for the endpoint."""
    rig.endpoint.begun = 0
    rig.endpoint.arm()
    run = rig.start_run()
    wait_until(lambda: rig.endpoint.reached.is_set() or rig.has_ended(run))
    assert not rig.has_ended(run), rig.site.status(run)
    return run


def ended(rig: Rig, run: str) -> tuple[str, str, str]:
    """How the run ended; nothing that it owned is left, and it was executed once."""
    wait_until(lambda: rig.has_ended(run))
    assert rig.left_behind(run, Sentinels()) == []
    assert rig.executions(run) == 1
    return statuses(rig.site.status(run))


@pytest.fixture
def whole(rig: Rig) -> Iterator[Rig]:
    yield rig
    rig.endpoint.release()
    if not rig.worker.alive:
        rig.worker.start()


def test_a_queue_that_is_stopped_and_loses_everything_loses_no_run(whole: Rig) -> None:
    """The run that is carried out goes on; the one that waited is put again by the worker's timer."""
    first = waiting_run(whole)
    second = whole.start_run()
    whole.site.stop_queue()
    whole.endpoint.release()
    assert ended(whole, first) == TRULY_FINISHED
    assert ended(whole, second) == TRULY_FINISHED
    assert whole.endpoint.begun == 2 and whole.worker.alive


def test_a_worker_that_is_told_to_stop_finishes_its_run_and_takes_no_other(whole: Rig) -> None:
    first = waiting_run(whole)
    second = whole.start_run()
    whole.worker.term()
    whole.endpoint.release()
    assert ended(whole, first) == TRULY_FINISHED
    assert whole.worker.process is not None and whole.worker.process.wait(120) == 0
    assert not whole.has_ended(second)
    whole.worker.start()
    assert ended(whole, second) == TRULY_FINISHED
    assert whole.endpoint.begun == 2


def test_a_worker_that_is_told_twice_interrupts_its_run_which_is_never_executed_again(whole: Rig) -> None:
    run = waiting_run(whole)
    before = whole.worker.log.stat().st_size
    whole.worker.term()
    wait_until(lambda: b"warm shut down requested" in whole.worker.log.read_bytes()[before:])
    time.sleep(1.5)  # a second request within a second counts as the same, and a third would break off the conclusion
    whole.worker.term()
    assert whole.worker.process is not None
    whole.worker.process.wait(120)
    assert ended(whole, run) == ("interrupted", "error", "clean")
    whole.worker.start()
    assert ended(whole, run) == ("interrupted", "error", "clean")
    assert whole.endpoint.begun == 1


@pytest.fixture
def database(rig: Rig) -> Iterator[OwnDatabase]:
    with own_database() as made:
        yield made


def turn_away(clients: int) -> None:
    """Wait until so many have asked for the database where there is none; the run's own process asks the most often."""
    with socket.create_server(("127.0.0.1", PORT)) as server:
        server.settimeout(120)
        for _ in range(clients):
            server.accept()[0].close()


def test_a_database_that_restarts_is_waited_for(rig: Rig, database: OwnDatabase) -> None:
    with with_database(rig, database) as second:
        run = waiting_run(second)
        database.stop()
        turn_away(5)
        second.endpoint.release()
        database.start()
        assert ended(second, run) == TRULY_FINISHED
        assert second.endpoint.begun == 1 and second.worker.alive
