"""Nothing that the attendant opens can be written by its sandbox, and no link is followed where it reads again."""

import subprocess
from pathlib import Path

import pytest

from tests.attendant import whole_trial
from tests.attendant.real_parts import Bench
from tests.attendant.test_whole_trial import SOLVE, wait_until
from tests.attendant.watched_paths import Mount, mounts, opened_on, sandbox_mounts, writable
from tests.attendant.whole_trial import UIDS, run_trial

pytestmark = pytest.mark.harbor_compatibility


def test_what_the_attendant_opens_lies_on_no_file_system_that_its_sandbox_can_write(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_trial, "ATTENDANT", Path(__file__).with_name("watched_attendant.py"))
    seen: list[Mount] = []

    def look(process: "subprocess.Popen[bytes]", trial: Path) -> None:
        wait_until(lambda: seen.extend(sandbox_mounts(UIDS, bench.directory)) or seen)

    ended = run_trial(bench, [SOLVE], meanwhile=look)
    assert ended.exit_code == 0, ended.log
    assert {place for _, place in writable(seen)} == {"/proc", "/dev/pts", str(bench.directory)}
    devices = {device for device, _ in writable(seen)}
    assert devices.isdisjoint({device for device, _, _ in mounts("self")})

    opened, reached = opened_on(devices, bench.directory / "opened.log")
    assert {str(bench.trial / name) for name in ("environment.json", "config.json", "observed.jsonl")} <= opened
    assert str(bench.directory / "tasks/small/task.toml") in opened  # so it is watched
    assert reached == []
