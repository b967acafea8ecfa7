"""When memory ends, the kernel takes a trial's process and leaves the worker, even the larger one of the two."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 160 << 20
# The worker holds more than what is left for its trial, so without any preference it would be taken.
WORKER = """
import os, sys
from pathlib import Path
from runs.engine.trials.processes import launch
Path(sys.argv[1]).write_text(str(os.getpid()))
held = bytearray(os.urandom(1)) * (90 << 20)
trial = "held = []\\nwhile True: held.append(bytearray(b'x') * (1 << 20))"
with open(os.devnull, "wb") as output:
    child = launch([sys.executable, "-c", trial], owner="o", environment={}, directory=Path("/"), output=output)
print("trial ended with", child.process.wait(), flush=True)
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A memory cgroup of LIMIT bytes: its file of processes."""
    root = Path("/sys/fs/cgroup")
    v1 = (root / "memory").is_dir()
    folder = (root / "memory" if v1 else root) / f"benchsite-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(LIMIT))
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield folder / "cgroup.procs"
    folder.rmdir()


def test_a_trial_that_takes_all_memory_is_killed_and_its_worker_goes_on(cgroup: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(cgroup)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "trial ended with -9"), done.stderr
