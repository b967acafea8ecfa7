"""A CI job for real: preview, start --wait, evidence, export, through queue, worker, engine and Harbor.

Four runs of one task: one that passes, one that fails, one whose endpoint refuses, one that the job cancels.
"""

import json
import secrets
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from runs.scripted.scripts import Mode
from tests.commands.schemas import validated
from tests.engine.plays import Stage, record
from tests.engine.site import ROOT, WAIT_S, Done, GateSite, prepared_site, serving, wait_until

pytestmark = pytest.mark.harbor_compatibility
TASK = "ledger-totals"
PASSING, FAILING, ERRONEOUS, CANCELLED = "ci-passing", "ci-failing", "ci-erroneous", "ci-cancelled"
MODES = {
    PASSING: Mode.POSITIVE, FAILING: Mode.NEGATIVE, ERRONEOUS: Mode.UNAUTHORIZED, CANCELLED: Mode.HANG,
}  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """The site that the job reaches, the endpoint's stage, and a folder for the job's own files."""

    site: GateSite
    stage: Stage
    folder: Path

    def place(self, alias: str) -> Path:
        (self.folder / alias).mkdir(exist_ok=True)
        return self.folder / alias


@dataclass(frozen=True)
class Job:
    """What came of a job's steps: the run's document, its code, the progress on stderr, and the job's folder."""

    code: int
    run: dict[str, Any]
    preview: dict[str, Any]
    progress: str
    folder: Path


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    site, folder = prepared_site(), tmp_path_factory.mktemp("job")
    key, key_file = f"sk-{secrets.token_urlsafe(18)}", folder / "key"
    key_file.touch(0o600)
    key_file.write_text(key + "\n")
    stage = Stage({alias: {TASK: mode} for alias, mode in MODES.items()})
    with serving(stage, key) as base_url:
        for alias in MODES:
            site.register(record(alias, base_url, str(key_file)))
        with site.worker():
            yield Surroundings(site, stage, folder)
    site.stop_queue()
    shutil.rmtree(site.data)


def shown(done: Done, code: int = 0) -> dict[str, Any]:
    """The one JSON document of a command that ended as it must, held against its schema."""
    assert done.code == code, done
    [line] = done.out.splitlines()
    return validated(json.loads(line))


def job(around: Surroundings, alias: str) -> Job:
    """Preview, and start just that with reports; the cancelled one gets SIGINT while its agent waits."""
    place = around.place(alias)
    preview = shown(around.site.manage("preview", "--endpoint", alias, "--task", TASK, "--json"))
    arguments = ["start", "--preview", preview["preview"], "--spec-sha256", preview["spec_sha256"], "--wait", "--json"]
    arguments += ["--junit", str(place / "report.xml"), "--summary", str(place / "summary.md")]
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    environment = around.site.environment
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        if alias == CANCELLED:
            wait_until(lambda: (alias, TASK) in around.stage.heard or process.poll() is not None)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    [line] = out.splitlines() or pytest.fail(err)
    return Job(process.returncode, validated(json.loads(line)), preview, err, place)


@pytest.fixture(scope="module")
def jobs(surroundings: Surroundings) -> dict[str, Job]:
    return {alias: job(surroundings, alias) for alias in MODES}


@pytest.mark.parametrize(
    ("alias", "code", "verdict", "counted"),
    [
        (PASSING, 0, "passed", "passed"),
        (FAILING, 1, "failed", "failed"),
        (ERRONEOUS, 4, "incomplete", "error"),
        (CANCELLED, 5, "cancelled", "cancelled"),
    ],
)
def test_the_job_ends_by_the_verdict_and_its_reports_say_the_same(
    jobs: dict[str, Job], alias: str, code: int, verdict: str, counted: str
) -> None:
    done = jobs[alias]
    run = done.run
    assert (done.code, run["exit_code"], run["verdict"], run["cleanup"]) == (code, code, verdict, "clean")
    assert run["counts"]["requested"] == run["counts"][counted] == 1
    assert run["spec_sha256"] == done.preview["spec_sha256"]
    [suite] = ElementTree.parse(done.folder / "report.xml").getroot().findall("testsuite")
    told = {"failed": "failures", "error": "errors", "cancelled": "skipped"}
    expected = {name: str(int(told.get(counted) == name)) for name in ("failures", "errors", "skipped")}
    assert {name: suite.get(name) for name in expected} == expected and suite.get("tests") == "1"
    assert (done.folder / "summary.md").read_text().startswith(f"## benchsite: {verdict}\n")


def test_each_change_is_one_line_of_progress_and_the_end_is_the_last(jobs: dict[str, Job]) -> None:
    for done in jobs.values():
        lines = done.progress.splitlines()
        assert len(lines) == len(set(lines)) >= 4
        assert lines[-1] == f"run {done.run['run']} {done.run['state']}: verdict {done.run['verdict']}, cleanup clean"


def test_the_interrupt_was_told_and_the_run_cancelled_by_it(jobs: dict[str, Job]) -> None:
    assert f"cancelling run {jobs[CANCELLED].run['run']}" in jobs[CANCELLED].progress
    assert jobs[CANCELLED].run["cancel_requested_at"] is not None


@pytest.mark.parametrize("alias", MODES)
def test_its_evidence_is_listed_got_and_exported_with_hashes_that_hold(
    surroundings: Surroundings, jobs: dict[str, Job], alias: str
) -> None:
    manage, run, place = surroundings.site.manage, jobs[alias].run["run"], jobs[alias].folder
    files = shown(manage("evidence", run, "--json"))["files"]
    suite = next(file for file in files if file["path"] == "evidence/suite.json")
    shown(manage("evidence", run, "--get", suite["id"], "--output", str(place / "suite.json"), "--json"))
    assert json.loads((place / "suite.json").read_text())["verdict"]["value"] == jobs[alias].run["verdict"]
    shown(manage("export", run, str(place / "evidence.zip"), "--json"))
    with zipfile.ZipFile(place / "evidence.zip") as archive:
        archive.extractall(place)
    unpacked = place / f"benchsite-{run}"
    checked = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=unpacked, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count(": OK") == sum(file["id"] is not None for file in files) > 5


def test_the_other_commands_follow_their_schemas_on_real_runs(surroundings: Surroundings, jobs: dict[str, Job]) -> None:
    manage, run = surroundings.site.manage, jobs[PASSING].run["run"]
    shown(manage("status", run, "--json"))
    shown(manage("status", "--json"))
    assert shown(manage("logs", run, "--json"))["lines"]
    assert shown(manage("audit", run, "--json"))["clean"] is True
    assert shown(manage("classify", str(surroundings.site.run_folder(run)), "--json"))["verdict"] == "passed"
    assert shown(manage("cleanup", run, "--json"))["cleanup"] == "clean"
    assert shown(manage("recover", "--json"))["clean"] is True
    shown(manage("prepare", "--offline", "--json"))
    assert shown(manage("worker", "--report", "--json"))["report"]["engine"]["version"]


def test_a_preflight_proves_everything_anew_on_the_workers_host(surroundings: Surroundings) -> None:
    document = shown(surroundings.site.manage("preflight", "--endpoint", PASSING, "--task", TASK, "--json"))
    names = {check["name"] for check in document["checks"]}
    assert {"engine", "limit memory", "images", "harness", "disk", "subnets", "locks recorded"} <= names
    assert document["spec_sha256"] and not document["stored"]


def test_a_preflight_without_an_engine_exits_3_and_names_it(surroundings: Surroundings) -> None:
    done = surroundings.site.manage("preflight", "--json", DOCKER_HOST="unix:///nonexistent/docker.sock")
    failed = {check["name"]: check for check in shown(done, 3)["checks"] if not check["passed"]}
    assert failed["engine"]["remedy"]
