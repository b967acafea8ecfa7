"""The time of one recovery pass over 1,000 finished runs with intact journals, none of which needs an engine.

The pass is that of a worker's start: rows that ended lately, every run's folder, the queue. On a site of its own.
"""

import json
import os
import subprocess
import sys
import tempfile

from tests.benchmarks.result import Result

TARGET_S = 5.0


def measure() -> Result:
    """The slower of two passes, the first of which finds nothing in the cache of this process."""
    with tempfile.TemporaryDirectory(prefix="bs-bench-") as name:
        environment = {**os.environ, "BENCHSITE_DATA": name, "DOCKER_HOST": f"unix://{name}/no-engine.sock"}
        for variable in ("DATABASE_URL", "REDIS_URL"):
            environment.pop(variable, None)
        command = [sys.executable, "-m", "tests.benchmarks.recovered_runs"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found), file=sys.stderr)
    return Result("recovery-of-1000-runs", max(found["seconds"]), "s", TARGET_S)
