"""The whole product for real: `manage.py smoke` through queue, worker, engine and Harbor, as a person runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import docker
import psutil
import pytest

from runs.smoke.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture
def site(tmp_path):
    """The environment of a site of its own in a fresh data folder, with the prepared assets."""
    environment = {**os.environ, "BENCHSITE_DATA": str(tmp_path), "BENCHSITE_WORKER": "smoke-test"}
    environment.pop("DATABASE_URL", None)
    environment["DJANGO_SETTINGS_MODULE"] = "benchsite.settings"
    return environment


def manage(site: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=site, capture_output=True, text=True, timeout=900)


def owned() -> set[str]:
    """Every container and network that carries a run's label, in any state."""
    api = docker.APIClient(version="auto")
    containers = api.containers(all=True, filters={"label": "benchsite.run"})
    networks = api.networks(filters={"label": "benchsite.run"})
    api.close()
    return {item["Id"] for item in [*containers, *networks]}


def test_every_expectation_of_the_smoke_holds_and_nothing_is_left(site):
    before = owned()
    assert manage(site, "migrate", "--verbosity", "0").returncode == 0
    prepared = manage(site, "prepare")
    assert prepared.returncode == 0, prepared.stderr
    ended = manage(site, "smoke", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads(ended.stdout)
    assert document["held"] is True
    assert [run["misses"] for run in document["runs"]] == [[]] * len(SCENARIOS)
    assert owned() == before
    left = [
        process for process in psutil.process_iter(["cmdline"]) if site["BENCHSITE_DATA"] in " ".join(_words(process))
    ]
    assert left == []


def _words(process: psutil.Process) -> list[str]:
    return process.info["cmdline"] or []
