"""The time until the first window of a trajectory of 100,000 steps and 200 MB is there (design 8)."""

import sys
import tempfile
import time
from pathlib import Path

from evidence.trajectory.index import build_index
from evidence.trajectory.windows import Trajectory
from tests.benchmarks.long_trajectory import write_trajectory
from tests.benchmarks.result import Result

TARGET_S = 0.5


def measure() -> Result:
    """Seconds from opening file and index to 50 parsed steps; the worst of the first, a middle and the last window."""
    with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as folder:
        source, index = Path(folder) / "trajectory.json", Path(folder) / "trajectory.index"
        write_trajectory(source)
        began = time.perf_counter()
        with source.open("rb") as file, index.open("wb") as sink:
            summary = build_index(file, sink)
        seconds = time.perf_counter() - began
        print(f"{source.stat().st_size:,} bytes, {summary.steps:,} steps, index in {seconds:.1f} s", file=sys.stderr)
        worst = max(_window(source, index, first) for first in (1, summary.steps // 2, summary.steps))
    return Result("trajectory-first-window", worst, "s", TARGET_S)


def _window(source: Path, index: Path, first: int) -> float:
    began = time.perf_counter()
    with source.open("rb") as file, index.open("rb") as records:
        window = Trajectory(file, records).window(first)
    assert window.steps
    return time.perf_counter() - began
