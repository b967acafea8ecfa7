"""Runs list and run page with 10,000 runs and 1,000,000 trials in PostgreSQL: the slower page's p95 in the app.

A scratch PostgreSQL is made, filled and removed again; needs its server programs (Debian: postgresql).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.result import Result

TARGET_MS = 50.0


def measure() -> Result:
    with tempfile.TemporaryDirectory(prefix="benchsite-pages-") as name, _postgres() as url:
        environment = {**os.environ, "BENCHSITE_DATA": name, "DATABASE_URL": url}
        command = [sys.executable, "-m", "tests.benchmarks.pages_filled"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found), file=sys.stderr)
    slower = max(found["pages"][name]["p95_ms"] for name in ("runs list", "run page"))
    return Result("pages", slower, "ms", TARGET_MS)


@contextmanager
def _postgres() -> Iterator[str]:
    """A cluster of its own on a Unix socket, run by the user ``postgres`` when we are root."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="benchsite-pg-"))
    as_user = []
    if os.geteuid() == 0:
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres", "postgres")
    data, port = folder / "data", "54329"

    def run(*arguments: str) -> None:
        subprocess.run([*as_user, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    run(str(programs / "initdb"), "-D", str(data), "-U", "bench", "--auth=trust", "--no-sync")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    try:
        run(str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        yield f"postgresql://bench@127.0.0.1:{port}/postgres"
    finally:
        run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not found[-1].is_file():
        raise SystemExit("PostgreSQL's server programs are missing; install the package postgresql.")
    return found[-1].parent
