"""The first process of an agent's container is killed from outside: the trial is not measured, and nothing is left."""

import os
import signal

import pytest

from runs.containers import connect
from runs.ownership import Journal, Role
from tests.engine.conftest import LOST, EndedRun, Gate
from tests.engine.looking import After, look_after

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture(scope="module")
def broken(gate: Gate) -> tuple[EndedRun, After]:
    """While the second trial's agent waits for an answer, the holder of its container dies."""
    run = gate.start_and_wait(LOST, "ledger-totals", "config-merge", until="config-merge")
    resources = Journal(gate.site.run_folder(run)).read().resources
    (agent,) = [one.resource_id for one in resources if (one.intent.role, one.intent.trial) == (Role.AGENT, 2)]
    api = connect(30)
    os.kill(api.inspect_container(agent)["State"]["Pid"], signal.SIGKILL)
    api.close()
    return EndedRun(gate.site.ended(run), gate.site.run_folder(run), gate.stage), look_after(gate.site, run)


def test_the_trial_is_not_evaluated_and_the_one_before_stays(broken: tuple[EndedRun, After]) -> None:
    first, second = broken[0].run["trials"]
    assert (first["bucket"], second["bucket"], second["class"]) == ("passed", "error", "worker_runtime")
    assert second["reward"] is None or "reward_not_counted" in second["badges"]
    assert broken[0].run["verdict"] == "error"


def test_nothing_is_left_of_it(broken: tuple[EndedRun, After]) -> None:
    run, after = broken
    assert (run.run["cleanup"], after.containers_left, after.networks_left) == ("clean", [], [])
