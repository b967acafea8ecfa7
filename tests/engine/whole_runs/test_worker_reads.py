"""Nothing that a worker or a command opens, while a run lives or after, can be written by the run's sandbox."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.attendant.watched_paths import Mount, mounts, opened_on, sandbox_mounts, writable
from tests.engine.conftest import HANG, Gate
from tests.engine.site import ROOT, GateSite, wait_until

pytestmark = pytest.mark.harbor_compatibility
ENDED = "select ended_at from runs_run where id = ?"
SANDBOX_UIDS = range(70_000, 70_064)


def test_what_a_worker_opens_lies_on_no_file_system_that_a_sandbox_can_write(
    world: GateSite, gate: Gate, tmp_path: Path
) -> None:
    log, seen = tmp_path / "opened.log", list[Mount]()
    code = f"import sys; sys.path.append({str(ROOT)!r})\nfrom pathlib import Path\n"
    code += f"from tests.attendant.watched_paths import watch_into\nwatch_into(Path({str(log)!r}))\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    site = replace(world, changes={"PYTHONPATH": str(tmp_path)})
    with site.worker():
        run = site.start(HANG, "ledger-totals")
        home = site.run_folder(run)
        wait_until(lambda: seen.extend(sandbox_mounts(SANDBOX_UIDS, home)) or seen or site.value(ENDED, run))
        document = site.ended(run)
    assert (document["verdict"], document["cleanup"]) == ("passed", "clean")
    devices = {device for device, _ in writable(seen)}
    assert devices and devices.isdisjoint({device for device, _, _ in mounts("self")})

    opened, reached = opened_on(devices, log)
    assert {str(home / name) for name in ("journal.json", "spec.json", "trials/1/observed.jsonl")} <= opened
    assert reached == []
