"""The writes a second that an ownership journal takes; each is read, locked, checked, synced and renamed.

A trial makes about a dozen of them, so a write may take some milliseconds; what it must not do is wait for anything
but the disk. Beside it stands the same amount of bytes written and synced plainly.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from runs.ownership import Journal, Outcome, Role
from runs.ownership.storage import replace_whole
from tests.benchmarks.result import Result

CONTAINERS = 12
ROUNDS = 200
TARGET_MS = 20.0


def measure() -> Result:
    """The median of one write in milliseconds, in a journal of a whole run."""
    with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as name:
        folder = Path(name)
        journal = Journal.create(folder / "run", run_id="0" * 32)
        nonces = []
        for number in range(CONTAINERS):
            intent = journal.intend(Role.AGENT, trial=1)
            with journal.creating(intent) as slot:
                slot.persist(f"{number:064x}")
            nonces.append(intent.nonce)
        data = journal.path.read_bytes()
        plain = _median(lambda _: replace_whole(folder / "plain", data))
        writes = _median(lambda n: journal.record_outcome(nonces[n % CONTAINERS], Outcome.UNKNOWN, "still there"))
    print(
        f"{len(data):,} bytes: {1 / writes:.0f} writes a second; plain, synced and renamed: {1 / plain:.0f} a second",
        file=sys.stderr,
    )
    return Result("journal-writes", writes * 1000, "ms", TARGET_MS)


def _median(act: Callable[[int], None]) -> float:
    seconds = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        act(number)
        seconds.append(time.perf_counter() - began)
    os.sync()
    return statistics.median(seconds)
