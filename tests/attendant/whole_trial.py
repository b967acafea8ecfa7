"""One whole trial: the real launcher and Harbor, real containers, a small task, a scripted endpoint."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runs.documents.run_spec import RunSpec
from runs.engine.trials.harbor_config import write_trial_files
from runs.engine.trials.trial_process import ATTENDANT
from tests.attendant.real_parts import AGENT_TMPFS, MIB, VERIFIER_TMPFS, Bench
from tests.spec_documents import run_spec

UIDS = range(70_000, 70_064)
TOKEN = "bearer-of-this-trial"
TASK_TOML = """
schema_version = "1.4"
artifacts = ["/app/output"]
[agent]
timeout_sec = 120.0
[environment]
docker_image = "benchsite-agent"
workdir = "/app"
build_timeout_sec = 30.0
network_mode = "allowlist"
allowed_hosts = ["model-gateway"]
[verifier]
timeout_sec = 30.0
environment_mode = "separate"
[verifier.environment]
docker_image = "benchsite-verifier"
workdir = "/tests"
build_timeout_sec = 30.0
network_mode = "no-network"
"""
TEST_SH = """#!/bin/sh
if [ "$(cat /app/output/answer.txt)" = "42" ]; then reward=1; else reward=0; fi
printf '{"reward": %s}' "$reward" > /logs/verifier/reward.json
echo "graded $reward"
"""


@dataclass
class Ended:
    """What a trial left: its folder, exit code, wall time in seconds, and what was observed."""

    directory: Path
    exit_code: int
    seconds: float
    log: str

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = (self.directory / "observed.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def of(self, event: str, **match: Any) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event and all(e[name] == want for name, want in match.items())]

    @property
    def harbor_folder(self) -> Path:
        (folder,) = (path.parent for path in (self.directory / "job").glob("*/config.json"))
        return folder

    @property
    def result(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.harbor_folder / "result.json").read_text())
        return document


def small_task(root: Path, files: dict[str, str] | None = None) -> Path:
    """A task whose answer is 42 in /app/output/answer.txt. `files` adds or replaces."""
    task = root / "tasks" / "small"
    for name, text in {
        "task.toml": TASK_TOML,
        "instruction.md": "Write 42 to /app/output/answer.txt\n",
        "environment/question.txt": "What is six times seven?\n",
        "tests/test.sh": TEST_SH,
        **(files or {}),
    }.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return task


def spec_of(bench: Bench, **limits: Any) -> RunSpec:
    common = {"cpus": 1.0, "memory_bytes": 768 * MIB, "pids": 128, "nofile": 512}
    times = {"trial_s": 300, "environment_start_s": 30, "agent_setup_s": 60, "agent_s": 100, "verifier_s": 30}
    changes = {
        "images.agent": bench.parts.agent,
        "images.verifier": bench.parts.verifier,
        "endpoint.model": "scripted",
        "controls.max_steps": 8,
        "controls.max_completion_tokens": 256,
        "controls.request_timeout_s": 20,
        "limits.agent": {**common, "tmpfs": AGENT_TMPFS},
        "limits.verifier": {**common, "tmpfs": VERIFIER_TMPFS},
        **{f"limits.{name}": value for name, value in (times | limits).items()},
    }
    return run_spec("small", changes=changes)


def run_trial(
    bench: Bench,
    commands: list[str],
    *,
    spec: RunSpec | None = None,
    files: dict[str, str] | None = None,
    meanwhile: Callable[[subprocess.Popen[bytes], Path], None] | None = None,
    wait_s: float = 280.0,
) -> Ended:
    """Run one trial to its end. `meanwhile` is called with the process once it was told to go."""
    network = bench.network()
    _, address = bench.endpoint(network, TOKEN, commands)
    write_trial_files(
        spec or spec_of(bench),
        ordinal=1,
        trial_directory=bench.trial,
        task_directory=small_task(bench.directory, files),
        network=network,
        gateway_address=address,
        gateway_url="http://model-gateway:8080/v1",
    )
    return launch(bench, meanwhile, wait_s)


def launch(bench: Bench, meanwhile: Callable[[subprocess.Popen[bytes], Path], None] | None, wait_s: float) -> Ended:
    argv = [sys.executable, "-I", ATTENDANT, "--harness", bench.parts.python.parent.parent]
    argv += ["--run-directory", bench.directory, "--trial", "1", "--seconds", "300"]
    argv += ["--uids", UIDS[0], UIDS[-1]]
    log = bench.trial / "harbor.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in argv], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            cwd=bench.directory, env={"PATH": os.environ["PATH"], "BENCHSITE_OWNER": "x"}, start_new_session=True,
        )  # fmt: skip
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"token": TOKEN}).encode() + b"\n")
            process.stdin.close()
            if meanwhile is not None:
                meanwhile(process, bench.trial)
            code = process.wait(wait_s)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return Ended(bench.trial, code, time.monotonic() - started, log.read_text(errors="replace"))
