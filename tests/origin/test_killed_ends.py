"""A process that is killed between verdict and signature leaves an end that another one makes whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.origin.killed_ends import STEPS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What came of each step's kill, in a database and a data folder of its own."""
    place = tmp_path_factory.mktemp("killed")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_URL", "BENCHSITE_"))}
    settings = {"DJANGO_SETTINGS_MODULE": "tests.settings", "BENCHSITE_DATA": str(place / "data")}
    (place / "data").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.origin.killed_ends", str(place)],
        cwd=ROOT, env=kept | settings, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_every_step_was_killed_by_the_kernel(ends: list[dict[str, object]]) -> None:
    assert [each["died"] for each in ends] == [signal.SIGKILL] * len(STEPS)


def test_before_it_is_written_there_is_no_statement_and_behind_it_a_whole_one(ends: list[dict[str, object]]) -> None:
    written = [each["step"] for each in ends if each["left"]]
    assert written == [each["step"] for each in ends][3:]


def test_an_end_that_is_made_again_is_signed_once_by_worker_and_site(ends: list[dict[str, object]]) -> None:
    for each in ends:
        assert (each["verdict"], each["verifies"], each["roles"]) == ("passed", True, ["site", "worker"]), each
        assert each["differences"] == [], each
