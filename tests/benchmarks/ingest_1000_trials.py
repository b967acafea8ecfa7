"""The time to ingest a folder of 1,000 trials, against reading, hashing and writing its files plainly.

Such a folder has more files than a run's evidence may have (2,048, design 7), so the bound is lifted here: what is
measured is the work for each file, which is scrubbed, stored, hashed, looked through again and given its row.
"""

import hashlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from django.core.files.storage import FileSystemStorage
from django.test.utils import setup_databases, teardown_databases

from tests.benchmarks.result import Result
from tests.evidence.folders import passing_run

TRIALS = 1000
SECRETS = ("a-credential-of-the-endpoint-0001", "a-token-of-a-trial-0002")
TARGET_RATIO = 15.0


def measure() -> Result:
    databases: Any = setup_databases(verbosity=0, interactive=False)
    try:
        with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as name:
            return _measure(Path(name))
    finally:
        teardown_databases(databases, verbosity=0)


def _measure(where: Path) -> Result:
    from evidence.register import ingest, store
    from tests.evidence.rows import run_of

    case = passing_run(TRIALS)
    case.journal["resources"] = case.journal["resources"][:32]  # a journal holds one run's containers
    run, folder = run_of(case, where)
    (folder / "work").mkdir(exist_ok=True)
    plain = _plain(folder, where / "copy")
    stored = FileSystemStorage(where / "stored")
    with mock.patch.object(ingest, "MAX_FILES", 1_000_000), mock.patch.object(store, "default_storage", stored):
        began = time.perf_counter()
        report = ingest.ingest(run, folder, secrets=SECRETS)
        seconds = time.perf_counter() - began
        again = time.perf_counter()
        ingest.ingest(run, folder, secrets=SECRETS)
        repeated = time.perf_counter() - again
    assert report.refused == 0 and report.stored > 8 * TRIALS
    print(
        f"{report.stored:,} files, {report.bytes / 1024**2:.1f} MiB: plain {plain:.1f} s, ingest {seconds:.1f} s, "
        f"again {repeated:.1f} s",
        file=sys.stderr,
    )
    return Result("ingest-1000-trials", seconds / plain, "ratio", TARGET_RATIO)


def _plain(folder: Path, copy: Path) -> float:
    """Seconds to read, hash and write every file, with nothing looked for and nothing recorded."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    began = time.perf_counter()
    for number, path in enumerate(files):
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        target = copy / str(number % 256) / str(number)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return time.perf_counter() - began
