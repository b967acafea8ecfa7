"""The memory that an index and windows of a trajectory of 200 MB take (design 8: memory flat)."""

import resource
import tempfile
from pathlib import Path

from evidence.trajectory.index import build_index
from evidence.trajectory.windows import Trajectory
from tests.benchmarks.long_trajectory import write_trajectory
from tests.benchmarks.result import Result

TARGET_MIB = 32.0


def measure() -> Result:
    """Growth of the process's peak memory in MiB while a trajectory is indexed, shown and searched."""
    with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as folder:
        source, index = Path(folder) / "trajectory.json", Path(folder) / "trajectory.index"
        write_trajectory(source)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with source.open("rb") as file, index.open("w+b") as records:
            summary = build_index(file, records)
            trajectory = Trajectory(file, records)
            for first in (1, summary.steps // 2, summary.steps):
                assert trajectory.window(first).steps
            assert trajectory.find(f"step {summary.steps - 1}")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Result("trajectory-memory", grown / 1024, "MiB", TARGET_MIB)
