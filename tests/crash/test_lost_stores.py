"""Queue, database or worker go away while an agent works: the run ends truthfully, and once."""

import time
from collections.abc import Iterator

import pytest

from tests.crash.own_database import OwnDatabase, own_database
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


def test_jq05_a_queue_that_is_stopped_and_loses_everything_loses_no_run(whole: Rig) -> None:
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
    time.sleep(1.5)  # a second request within a second of the first one counts as the same
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


def test_a_database_that_restarts_is_waited_for(rig: Rig, database: OwnDatabase) -> None:
    with with_database(rig, database) as second:
        run = waiting_run(second)
        database.stop()
        time.sleep(2.0)  # longer than the supervisor's second, so that it meets a database that is not there
        second.endpoint.release()
        database.start()
        assert ended(second, run) == TRULY_FINISHED
        assert second.endpoint.begun == 1 and second.worker.alive
