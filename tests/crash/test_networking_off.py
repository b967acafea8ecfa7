"""With every asset there and networking off, everything works: prepare, preview and a whole run.

The rig's site and engine live in a network namespace with a loopback, the engine's bridges, and no way out.
"""

import errno
import json
import socket
import subprocess

import pytest

from tests.crash.endpoint import ALIAS
from tests.crash.rig import TASK, Rig, statuses

pytestmark = pytest.mark.harbor_compatibility


def test_nothing_leads_out_of_the_rig(rig: Rig) -> None:
    routes = subprocess.run(["ip", "route", "show", "default"], capture_output=True, text=True, check=True)
    assert routes.stdout == ""
    with socket.socket() as link, pytest.raises(OSError) as refused:
        link.connect(("192.0.2.1", 443))
    assert refused.value.errno == errno.ENETUNREACH


def test_prepare_preview_and_a_run_need_no_network(rig: Rig) -> None:
    rig.endpoint.release()
    prepared = rig.site.manage("prepare", "--offline")
    assert prepared.code == 0, prepared.err
    preview = rig.site.manage("preview", "--endpoint", ALIAS, "--task", TASK, "--json")
    assert preview.code == 0 and json.loads(preview.out)["spec_sha256"]
    assert statuses(rig.site.ended(rig.start_run())) == ("finished", "passed", "clean")
