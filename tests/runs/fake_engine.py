"""An engine without Docker for tests of the worker: it claims, waits for a file, and finishes.

It waits as long as the test that started it has its folder.
"""

import os
import sys
import time
import types
from pathlib import Path

import pytest
from django.conf import settings

from runs.engine.ending import recovery
from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Bucket, Verdict
from runs.ownership import process_identity
from runs.services import lifecycle
from tests.runs.rows import PASSED


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the place of ``runs.engine.execution`` and of the conclusion of lost runs."""
    module = types.ModuleType("runs.engine.execution")
    module.execute = execute  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "runs.engine.execution", module)
    monkeypatch.setattr(recovery, "_conclude", conclude)


def go_file(run_id: str) -> Path:
    return settings.DATA / f"go-{run_id}"


def executions() -> list[str]:
    """The ids of runs in the order in which they were executed; one twice would be a defect."""
    path = settings.DATA / "executed.txt"
    return path.read_text().split() if path.exists() else []


def execute(run_id: str) -> None:
    identity = process_identity(os.getpid())
    assert identity is not None
    if not lifecycle.claim(run_id, worker="local", identity=identity, host=settings.WORKER_HOST):
        return
    with (settings.DATA / "executed.txt").open("a") as file:
        file.write(f"{run_id}\n")
    while not go_file(run_id).exists():
        if not settings.DATA.exists():
            return
        time.sleep(0.02)
    for ordinal in (1, 2, 3):
        lifecycle.record_trial(run_id, ordinal, PASSED)
    lifecycle.finish(run_id, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN)


def conclude(run: Run) -> None:
    lifecycle.close_trials(
        run.pk, bucket=Bucket.ERROR, failure_class="worker_runtime", failure_code="worker_runtime.interrupted"
    )
    lifecycle.finish(run.pk, state=RunState.INTERRUPTED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
