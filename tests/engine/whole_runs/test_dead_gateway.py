"""The gateway is killed from outside while an agent works: an outage, and no breach of integrity."""

import json

import pytest

from runs.containers import connect
from runs.ownership import Journal, Role
from tests.engine.conftest import LOST, EndedRun, Gate

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture(scope="module")
def outage(gate: Gate) -> EndedRun:
    """Its first trial was graded; its second waits for an answer when the gateway is killed."""
    run = gate.start_and_wait(LOST, "ledger-totals", "config-merge", until="config-merge")
    resources = Journal(gate.site.run_folder(run)).read().resources
    (gateway,) = [each.resource_id for each in resources if each.intent.role is Role.GATEWAY]
    api = connect(30)
    api.kill(gateway, signal="SIGKILL")
    api.close()
    return EndedRun(gate.site.ended(run), gate.site.run_folder(run), gate.stage)


def test_what_was_graded_before_stays_and_the_open_trial_was_not_measured(outage: EndedRun) -> None:
    found = [(trial["bucket"], trial["code"]) for trial in outage.run["trials"]]
    assert found == [("passed", None), ("error", "worker_runtime.gateway")]
    assert (outage.run["verdict"], outage.run["cleanup"]) == ("error", "clean")


def test_the_run_says_when_and_how_its_gateway_died(outage: EndedRun) -> None:
    gateway = json.loads((outage.folder / "run.json").read_text())["gateway"]
    assert gateway["died"]["exit_code"] == 137 and gateway["died"]["at"] > "2"
