"""The disk is full while an agent works: nothing is left, nothing is evaluated, and it is said what it is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.engine.conftest import HANG, Gate
from tests.engine.looking import CONTAINERS, look_after, started_roles
from tests.engine.site import GateSite, on_own_disk, wait_until

pytestmark = pytest.mark.harbor_compatibility
ENDED = "select ended_at from runs_run where id = ?"
TASK = "config-merge"


@pytest.fixture
def own_disk(gate: Gate) -> Iterator[GateSite]:
    """A site whose data folder is a file system of its own, just larger than a run needs to begin."""
    with on_own_disk(gate.site, "2500m") as site:
        yield site


def fill(data: Path) -> None:
    """To the last byte: large pieces first. First the database's log is emptied, or a write takes its old pages."""
    with closing(sqlite3.connect(data / "benchsite.sqlite3", timeout=20)) as database:
        wait_until(lambda: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
    for piece in (1024 * 1024, 4096, 1):
        with (data / "filler").open("ab", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(piece)):
                pass


def test_a_disk_that_fills_up_during_a_run(own_disk: GateSite, gate: Gate) -> None:
    gate.stage.forget(HANG)
    with own_disk.worker():
        run = own_disk.start(HANG, TASK)
        wait_until(lambda: (HANG, TASK) in gate.stage.heard or own_disk.value(ENDED, run))
        wait_until(lambda: started_roles(own_disk, run) >= set(CONTAINERS) or own_disk.value(ENDED, run))
        fill(own_disk.data)
        refused = own_disk.manage("cancel", run)
        assert refused.code == 4 and "disk" in refused.err and "Traceback" not in refused.err
        assert own_disk.value(ENDED, run) is None
        (own_disk.data / "filler").unlink()
        own_disk.done("cancel", run)
        document = own_disk.ended(run)
    after = look_after(own_disk, run)
    assert after.containers_left == after.networks_left == []
    assert (document["verdict"], document["cleanup"]) == ("cancelled", "clean")
    assert document["counts"]["evaluated"] == 0
