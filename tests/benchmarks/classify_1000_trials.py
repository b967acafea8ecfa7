"""How long does it take to read and classify a folder of 1,000 trials, every file hashed?"""

import tempfile
import time
from pathlib import Path

from evidence.suite.run_facts import read_run
from evidence.suite.verdict import count
from evidence.trial.classify import classify_trial
from tests.benchmarks.result import Result
from tests.evidence.folders import passing_run

TRIALS = 1000
TARGET_S = 30.0


def measure() -> Result:
    with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as folder:
        case = passing_run(TRIALS)
        case.journal["resources"] = case.journal["resources"][:32]  # a journal holds one run's containers
        run = case.write(Path(folder) / "run")
        began = time.perf_counter()
        counts = count([classify_trial(trial) for trial in read_run(run).trials])
        seconds = time.perf_counter() - began
    assert counts.requested == TRIALS
    return Result("classify-1000-trials", seconds, "s", TARGET_S)
