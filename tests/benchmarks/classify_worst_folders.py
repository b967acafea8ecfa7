"""What does the folder cost that is the hardest to judge? (design 7: 1 s of processor time and 200 MB for any folder)

Each is judged in a process of its own, and hashing the same bytes stands beside it.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from evidence.serializers import classification_document
from evidence.suite.judgement import judge
from evidence.suite.run_facts import ignored_files, read_run
from tests.benchmarks.result import Result
from tests.evidence.worst_folders import WORST

BOUND_S, BOUND_MB = 1.0, 200.0


def measure() -> Result:
    """The largest share of its bound that any of them takes."""
    shares = []
    for name, write in WORST.items():
        with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as parent:
            run = Path(parent) / "run"
            _costs(write, run)
            hashing, _ = _costs(_hash, run)
            seconds, megabytes = _costs(_judge, run)
        print(f"{name:28} {seconds:.2f} s {megabytes:4.0f} MB, hashing {hashing:.2f} s", file=sys.stderr)
        shares += [seconds / BOUND_S, megabytes / BOUND_MB]
    return Result("classify-worst-folders", max(shares), "ratio", 1.0)


def _costs(act: Callable[[Path], object], run: Path) -> tuple[float, float]:
    """Seconds of processor time and peak megabytes of a process that does this and nothing else."""
    child = os.fork()
    if child == 0:
        try:
            act(run)
            os._exit(0)
        finally:
            os._exit(1)
    _, status, used = os.wait4(child, 0)
    if status:
        raise RuntimeError("a folder could not be written or judged")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def _judge(run: Path) -> None:
    facts = read_run(run)
    classification_document(facts, judge(facts, cleanup_clean=True), ignored_files(run, facts))


def _hash(run: Path) -> None:
    for folder, _, names in os.walk(run):
        for name in names:
            with (Path(folder) / name).open("rb") as file:
                hashlib.file_digest(file, "sha256")
