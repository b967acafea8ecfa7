"""What does the end of a run cost whose agent wrote what is the hardest to search for secrets? (design 7: 1 s of
processor time per trial)

Each case is one trial whose agent filled its log with one of these. What is measured is keeping and judging, in a
process of its own; the same trial with a log of as many plain zeros, which costs what its bytes do, stands beside it.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from django.core.files.storage import FileSystemStorage
from django.test.utils import setup_databases, teardown_databases

from tests.benchmarks.result import Result
from tests.evidence.folders import list_files, passing_run

SIZE = 64 * 1024 * 1024 - 1024
CREDENTIAL = "sk-proj-A7f/Qz+91mXkPq0wLd"
TOKEN = hashlib.sha256(b"a trial's token").hexdigest()
BOUND_S = 1.0


def _filled(unit: bytes) -> bytes:
    return unit * (SIZE // len(unit))


def _each(spelling: Callable[[str], str], text: str) -> bytes:
    return "".join(map(spelling, text)).encode()


def _unicode(character: str) -> str:
    return f"\\u{ord(character):04x}"


def _decimal(character: str) -> str:
    return f"&#{ord(character)};"


# An agent knows its own token and nothing of the credential.
WORST: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: bytes(SIZE),
    "random": lambda: Random(1).randbytes(SIZE),
    "backslashes": lambda: _filled(b"\\"),
    "percent signs": lambda: _filled(b"%"),
    "ampersands": lambda: _filled(b"&"),
    "&amp;": lambda: _filled(b"&amp;"),
    "entities": lambda: _filled(b"&#115;&#x73;&sol;&amp;amp;#0115;"),
    "unknown entities": lambda: _filled(b"&qwertz;&zxcvbn;"),
    "every escape": lambda: _filled(b"&amp;amp;#x0000073;%25252573\\\\\\\\u0073&#00115;"),
    "the token": lambda: _filled(TOKEN.encode() + b"\n"),
    "the token, escaped": lambda: _filled(_each(_unicode, TOKEN) + b" "),
    "almost the token": lambda: _filled(_each(_decimal, TOKEN[:-1])),
    "the token, then almost": lambda: _filled(_each(_decimal, TOKEN) + 8 * _each(_decimal, TOKEN[:-1])),
    "base64 that is folded": lambda: _filled(b"c2sK\r\n\t"),
}


def measure() -> Result:
    databases: Any = setup_databases(verbosity=0, interactive=False)
    try:
        seconds = max(_measure(name, make) for name, make in WORST.items())
    finally:
        teardown_databases(databases, verbosity=0)
    return Result("end-of-hostile-runs", seconds, "s", BOUND_S)


def _measure(name: str, make: Callable[[], bytes]) -> float:
    """Seconds of processor time for one trial."""
    from evidence.models import Artifact
    from evidence.register import ingest, store
    from evidence.suite.judgement import judge
    from evidence.suite.run_facts import read_run
    from tests.evidence.rows import run_of

    with tempfile.TemporaryDirectory(prefix="benchsite-bench-") as where:
        case = passing_run(1)
        log = make()
        entry = {"modified": 0, "path": "log", "sha256": hashlib.sha256(log).hexdigest(), "size": len(log)}
        list_files(case.trial.event("transfer", purpose="agent_logs", direction="download"), [entry])
        kept = {path: data for path, data in case.trial.kept.items() if not path.startswith("agent/")}
        case.trial.kept = kept | {"agent/log": log}
        run, folder = run_of(case, Path(where))
        (folder / "work").mkdir(exist_ok=True)
        with mock.patch.object(store, "default_storage", FileSystemStorage(Path(where) / "stored")):
            began = sum(os.times()[:2])
            ingest.ingest(run, folder, secrets=[CREDENTIAL, TOKEN])
            kept_after = sum(os.times()[:2])
            verdict = judge(read_run(folder), cleanup_clean=True).suite.verdict
            ended = sum(os.times()[:2])
        row = Artifact.objects.get(run=run, path="trials/1/kept/agent/log")
        print(
            f"{name:24} keeping {kept_after - began:.2f} s, judging {ended - kept_after:.2f} s, {row.size:,} bytes "
            f"stored, {row.note or row.state}, {verdict}",
            file=sys.stderr,
        )
        return ended - began
