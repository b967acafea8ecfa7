"""Runs list and run page with 10,000 runs and 1,000,000 trials in PostgreSQL: the slower page's p95 in the app.

A scratch PostgreSQL is made, filled and removed again; needs its server programs (Debian: postgresql).
"""

import json
import os
import subprocess
import sys
import tempfile

from tests.benchmarks.result import Result
from tests.postgresql import scratch_postgresql

TARGET_MS = 50.0


def measure() -> Result:
    with tempfile.TemporaryDirectory(prefix="benchsite-pages-") as name, scratch_postgresql() as url:
        environment = {**os.environ, "BENCHSITE_DATA": name, "DATABASE_URL": url}
        command = [sys.executable, "-m", "tests.benchmarks.pages_filled"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found), file=sys.stderr)
    slower = max(found["pages"][name]["p95_ms"] for name in ("runs list", "run page"))
    return Result("pages", slower, "ms", TARGET_MS)
