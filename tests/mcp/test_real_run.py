"""One real run carried through by a client alone: preview, start, status until its end, evidence."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runs.scripted.scripts import Mode
from tests.engine.plays import Stage, record
from tests.engine.site import ROOT, GateSite, prepared_site, serving, wait_until
from tests.mcp.sessions import session

pytestmark = pytest.mark.harbor_compatibility
ALIAS, TASK = "gate-mcp", "file-tree"


@pytest.fixture
def site() -> Iterator[GateSite]:
    made = prepared_site()
    made.changes["BENCHSITE_LOG_FORMAT"] = "json"
    yield made
    made.stop_queue()
    shutil.rmtree(made.data)


@contextmanager
def burst(site: GateSite, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker that carries out what waits and leaves."""
    command = [sys.executable, str(ROOT / "manage.py"), "worker", "--burst", "--no-report"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=site.environment, stdout=output, stderr=output) as worker,
    ):
        yield worker


def test_a_client_carries_a_run_from_its_preview_to_its_evidence(site: GateSite, tmp_path: Path) -> None:
    key = f"sk-sentinel/+=&{secrets.token_urlsafe(18)}"
    key_file = tmp_path / "key"
    key_file.touch(0o600)
    key_file.write_text(key + "\n")
    site.done("worker", "--report")
    with (
        serving(Stage({ALIAS: {TASK: Mode.POSITIVE}}), key) as base_url,
        session("cli", site.environment, tmp_path / "mcp.log") as client,
    ):
        site.register(record(ALIAS, base_url, str(key_file)))
        shown = client.ok("preview", endpoint=ALIAS, tasks=[TASK])
        assert shown["blocked"] is False, shown["checks"]
        told = site.manage("preview", "--endpoint", ALIAS, "--task", TASK, "--json").json
        assert (shown["spec"], shown["spec_sha256"]) == (told["spec"], told["spec_sha256"])
        run = client.ok("start", preview=shown["preview"], spec_sha256=shown["spec_sha256"], accept=shown["accept"])[
            "run"
        ]
        assert client.ok("status", run=run)["state"] == "queued"

        states: list[str] = []

        def ended() -> bool:
            states.append(client.ok("status", run=run)["state"])
            return states[-1] in ("finished", "failed", "interrupted", "cancelled") or worker.poll() is not None

        with burst(site, tmp_path / "worker.log") as worker:
            wait_until(ended)
            worker.wait(60)
        document = client.ok("status", run=run)
        assert (document["state"], document["verdict"], document["cleanup"]) == ("finished", "passed", "clean"), (
            document
        )
        assert document["counts"] == {
            "requested": 1, "evaluated": 1, "passed": 1, "failed": 0, "error": 0, "cancelled": 0,
        }  # fmt: skip
        assert "running" in states

        lines = client.ok("logs", run=run)["lines"]
        assert any("Trial 1" in line["untrusted_text"] for line in lines)
        files = {row["kind"]: row for row in client.ok("evidence_list", run=run)["files"]}
        suite = client.ok("evidence_read", file=files["suite_result"]["file"])
        assert json.loads(suite["untrusted_text"])["promotion"]["authorized"] is False
        trajectory = client.ok("evidence_read", file=files["trajectory"]["file"], length=4096)
        assert trajectory["sha256"] == files["trajectory"]["sha256"] and trajectory["untrusted_text"].startswith("{")
        assert key not in json.dumps([document, lines, suite, trajectory])

    logged = [json.loads(line) for line in (tmp_path / "worker.log").read_text().splitlines()]
    of_the_job = [line for line in logged if line.get("job") == f"run-{run}"]
    assert of_the_job and all(line["run"] == run for line in of_the_job)
    assert key not in (tmp_path / "worker.log").read_text() + (tmp_path / "mcp.log").read_text()
