"""The whole product for real: `manage.py smoke` through queue, worker, engine and Harbor, as a person runs it."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import docker
import psutil
import pytest

from runs.ownership import JOURNAL_NAME, LABEL_OWNER, Journal
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


def owned(data: Path) -> tuple[set[str], list[str]]:
    """The owners that the site's journals name, and what the engine still lists under them, in any state.

    Not all that carries our labels: other sites of this machine may be at work meanwhile.
    """
    owners = {Journal(path.parent).read().owner for path in data.rglob(JOURNAL_NAME)}
    api = docker.APIClient(version="auto")
    left = [
        item["Id"]
        for owner in owners
        for listed in (partial(api.containers, all=True), api.networks)
        for item in listed(filters={"label": f"{LABEL_OWNER}={owner}"})
    ]
    api.close()
    return owners, left


def test_every_expectation_of_the_smoke_holds_and_nothing_is_left(site):
    assert manage(site, "migrate", "--verbosity", "0").returncode == 0
    prepared = manage(site, "prepare")
    assert prepared.returncode == 0, prepared.stderr
    ended = manage(site, "smoke", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads(ended.stdout)
    assert document["held"] is True
    assert [run["misses"] for run in document["runs"]] == [[]] * len(SCENARIOS)
    owners, owned_yet = owned(Path(site["BENCHSITE_DATA"]))
    assert len(owners) >= len(SCENARIOS) and owned_yet == []
    left = [
        process for process in psutil.process_iter(["cmdline"]) if site["BENCHSITE_DATA"] in " ".join(_words(process))
    ]
    assert left == []


def _words(process: psutil.Process) -> list[str]:
    return process.info["cmdline"] or []
