"""The time from a cancellation to every owned container gone, while the agent sleeps (design 8).

Real runs on a site of its own, cancelled while the agent waits for its model; the whole way: the flag in the database,
the harness that saves its logs, the removal, and the engine asked whether anything is left.
"""

import os
import shutil
import statistics
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.result import Result

SAMPLES = 5
TARGET_S = 3.0
ALIAS, TASK, KEY = "cancelled", "config-merge", "key-of-the-benchmark"


def measure() -> Result:
    """The median of the seconds between the request and the verified end."""
    from runs.scripted.scripts import Mode
    from tests.engine.plays import Stage, record
    from tests.engine.site import prepared_site, serving

    os.environ.setdefault("BENCHSITE_ASSETS", str(_assets()))
    site, stage = prepared_site(), Stage({ALIAS: {TASK: Mode.HANG}})
    try:
        with serving(stage, KEY) as base_url:
            key = site.data / "key"
            key.touch(0o600)
            key.write_text(KEY + "\n")
            site.register(record(ALIAS, base_url, str(key)))
            with site.worker():
                seconds = [_sample(site, stage) for _ in range(SAMPLES)]
    finally:
        site.stop_queue()
        shutil.rmtree(site.data, ignore_errors=True)
    print(f"samples: {', '.join(f'{one:.2f} s' for one in seconds)}", file=sys.stderr)
    return Result("cancel-to-gone", statistics.median(seconds), "s", TARGET_S)


def _sample(site: Any, stage: Any) -> float:
    from runs.containers import connect
    from tests.engine.site import wait_until

    stage.heard.clear()
    run = site.start(ALIAS, TASK)
    wait_until(lambda: (ALIAS, TASK) in stage.heard or site.value("select ended_at from runs_run where id = ?", run))
    site.done("cancel", run)
    document = site.ended(run)
    labels = {"label": [f"benchsite.run={run}"]}
    with closing(connect(30)) as api:
        left = [*api.containers(all=True, filters=labels), *api.networks(filters=labels)]
    assert not left and (document["state"], document["cleanup"]) == ("cancelled", "clean"), document
    asked, ended = (datetime.fromisoformat(document[name]) for name in ("cancel_requested_at", "ended_at"))
    return (ended - asked).total_seconds()


def _assets() -> Path:
    root = Path(__file__).parent.parent.parent
    return Path(os.environ.get("BENCHSITE_DATA", root / ".benchsite")) / "assets"
