"""The time of a download of 64 MiB with its hash checked, against a plain copy of the file (design 8)."""

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from evidence.models import Artifact, ArtifactState
from evidence.register import store
from tests.benchmarks.result import Result

SIZE = 64 * 1024 * 1024
ROUNDS = 7
TARGET_RATIO = 1.5


def measure() -> Result:
    """The ratio of medians: every byte through `store.chunks` into a file, against a loop of read and write."""
    with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.write_bytes(os.urandom(SIZE))
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        artifact = Artifact(stored="source", sha256=digest, size=SIZE, state=ArtifactState.OK)
        with mock.patch.object(store, "default_storage") as storage:
            storage.open = lambda name, mode: source.open(mode)
            times = [
                (_timed(lambda: _copy(source, target)), _timed(lambda: _download(artifact, target)))
                for _ in range(ROUNDS)
            ]
    plain, checked = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"plain {plain:.3f} s, checked {checked:.3f} s", file=sys.stderr)
    return Result("checked-download", checked / plain, "ratio", TARGET_RATIO)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("wb") as sink:
        while piece := file.read(store.CHUNK):
            sink.write(piece)


def _download(artifact: Artifact, target: Path) -> None:
    with target.open("wb") as sink:
        for piece in store.chunks(artifact):
            sink.write(piece)


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
