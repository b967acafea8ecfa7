"""Two runs of which one's id begins the other's: the one is cleaned up, and the other's things and processes stay.

A journal may have such an id. A run of the site may not, and `work/` is deleted of no other.
"""

from contextlib import closing
from pathlib import Path

import pytest

from runs.containers import ContainerRequest, OwnedContainer, create_owned, create_owned_network, start_owned
from runs.engine.ending.cleanup import clean_up
from runs.engine.trials.processes import Launched, launch
from runs.ownership import Journal, Role, identity_is_alive
from tests.crash.rig import Rig
from tests.crash.sentinels import WAIT, decoy

pytestmark = pytest.mark.harbor_compatibility


def owning(rig: Rig, runs: Path, run: str) -> tuple[Journal, OwnedContainer, str, Launched]:
    """A run's journal with a started container, a network, a process in its group, and a work folder."""
    (runs / run / "work").mkdir(parents=True)
    (runs / run / "work" / "file").touch()
    journal = Journal.create(runs / run, run_id=run)
    with (runs / run / "log").open("wb") as output:
        child = launch(
            [*WAIT, str(runs / run)], owner=journal.read().owner, environment={}, directory=runs, output=output
        )
    journal.record_process(child.identity, trial=1)
    with closing(rig.engine.api()) as api:
        request = ContainerRequest(
            role=Role.AGENT, image_id=rig.image_id, command=("sleep", "infinity"), cpus=0.5,
            memory_bytes=64 << 20, pids=32, nofile=128,
        )  # fmt: skip
        container = create_owned(api, journal, {"trial": 1}, request)
        start_owned(api, journal, container)
        network = create_owned_network(api, journal, internal=True)
    return journal, container, network.id, child


def test_cleaning_r1_touches_nothing_of_r10(rig: Rig, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first, second = owning(rig, runs, "r1"), owning(rig, runs, "r10")
    decoys = [decoy(runs / "r1"), decoy(runs / "r10")]
    try:
        assert clean_up(lambda _deadline: rig.engine.api(), first[0], reason="test").state == "clean"
        _, container, network, child = second
        with closing(rig.engine.api()) as api:
            assert api.inspect_container(container.id)["State"]["Running"]
            assert api.inspect_network(network)["Id"] == network
            of_first = {"label": ["benchsite.run=r1"]}
            assert api.containers(all=True, filters=of_first) == api.networks(filters=of_first) == []
        assert child.poll() is None and [one.poll() for one in decoys] == [None, None]
        assert not identity_is_alive(first[3].identity)
        assert (runs / "r10" / "work" / "file").exists()
    finally:
        for one in decoys:
            one.kill()
            one.wait()
        assert clean_up(lambda _deadline: rig.engine.api(), second[0], reason="test").state == "clean"
        for owned in (first, second):
            owned[3].process.wait(60)
