"""An endpoint that is stopped while a run asks it: its gateway ends at once, and the run with it."""

import json
from pathlib import Path

import pytest

from runs.documents.ledger import read_ledger
from tests.engine.conftest import HANG, Gate
from tests.engine.looking import look_after

pytestmark = pytest.mark.harbor_compatibility
# What an operator does, or an administrator after, in a process of its own.
STOP = """
from django.contrib.auth.models import Group, User
from runs.services import endpoint_switch
user, _ = User.objects.get_or_create(username="ada")
user.groups.set(Group.objects.filter(name="admin"))
user = User.objects.get(pk=user.pk)
"""


def test_its_gateway_ends_first_and_every_request_is_on_the_ledger(gate: Gate) -> None:
    run = gate.start_and_wait(HANG, "config-merge", until="config-merge")
    act = f"endpoint_switch.stop(user=user, name={HANG!r}, reason='a test')"
    allow = f"endpoint_switch.allow(user=user, name={HANG!r})"
    gate.site.done("shell", "-v0", "-c", STOP + act)
    try:
        document = gate.site.ended(run)
        refused = gate.site.manage("start", "--endpoint", HANG, "--json")
        untested = gate.site.manage("endpoint", "test", HANG, "--wait", "--json")
    finally:
        gate.site.done("shell", "-v0", "-c", STOP + allow)
    assert (document["verdict"], document["cleanup"]) == ("cancelled", "clean")
    assert [trial["bucket"] for trial in document["trials"]] == ["cancelled"]
    after = look_after(gate.site, run)
    assert after.containers_left == after.networks_left == []

    folder: Path = gate.site.run_folder(run)
    facts = json.loads((folder / "run.json").read_text())
    assert facts["gateway"]["closed"] is True and facts["gateway"].get("died") is None
    report = read_ledger((folder / "ledger.jsonl").read_bytes())
    assert report.intact
    # The request that the endpoint was holding ended with its gateway, before the harness was even told to end.
    assert [line.code for line in report.trial(1).requests if line.kind == "refused"] == ["closing"]

    assert refused.code == 3 and "endpoint.stopped" in refused.out + refused.err
    assert untested.code == 3 and "was stopped by ada" in untested.out + untested.err
