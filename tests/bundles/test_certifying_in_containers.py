"""The packaged bundle's verifier in its own container: the kinds of cases that a certification tries."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from runs.containers import connect, still_present
from runs.documents.bundle.certification import cases_of
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.engine.assets import load_assets
from runs.engine.grading.certifying import ContainerGrader
from runs.engine.host.maintenance import maintenance
from runs.ownership import Journal

pytestmark = pytest.mark.harbor_compatibility

TASK = "config-merge"
TRIED = (
    "the reference solution",
    "a wrong answer: wrong",
    "forged: reward files among the artifacts",
    "forged: programs that would be loaded by name",
    "hostile: nothing at all",
    "hostile: output is a named pipe",
    "hostile: config.json: a sparse file of 1 TiB",
    "hostile: config.json: a link to the right answer",
)


@pytest.fixture(scope="module")
def journal(tmp_path_factory) -> Iterator[Journal]:
    directory = tmp_path_factory.mktemp("certification")
    with maintenance(directory, "test", partial(connect, 30)) as journal:
        yield journal


@pytest.fixture(scope="module")
def grader(journal) -> ContainerGrader:
    images = load_assets(Path(os.environ["BENCHSITE_ASSETS"])).images
    return ContainerGrader(connect(90), journal, read_bundle(ENVIRONMENT_SMOKE), images)


@pytest.mark.parametrize("name", TRIED)
def test_a_case_is_graded_in_a_container_as_it_must(name, grader, tmp_path):
    (case,) = [case for case in cases_of(ENVIRONMENT_SMOKE, TASK, grader) if case.name == name]
    case.prepare(tmp_path)
    result = grader.grade(ENVIRONMENT_SMOKE / "tasks" / TASK, tmp_path)
    assert (result.exit_code, result.reward) == (0, case.expected)
    assert list(result.reward_files) == ["reward.json"]


@pytest.mark.parametrize(("more", "reward"), [("", 1), ("mkdir /logs/verifier/reward.json", None)])
def test_what_is_no_plain_file_beside_a_reward_is_named_and_not_read(grader, tmp_path, more, reward):
    task, root = tmp_path / "task", tmp_path / "root"
    shutil.copytree(ENVIRONMENT_SMOKE / "tasks" / TASK, task)
    root.mkdir()
    (task / "tests/test.sh").write_text(
        "#!/bin/sh\ncd /logs/verifier\nmkdir details\necho 0 > details/reward.txt\nmkfifo pipe\n"
        f"ln -s details/reward.txt link\necho 1 > reward.txt\n{more}\n"
    )
    result = grader.grade(task, root)
    assert (result.exit_code, result.reward) == (0, reward)
    names = {"details": b"", "link": b"", "pipe": b"", "reward.txt": b"1\n"}
    assert result.reward_files == (names if not more else names | {"reward.json": b""})


def test_no_container_is_left_behind(grader, journal, tmp_path):
    grader.grade(ENVIRONMENT_SMOKE / "tasks" / TASK, tmp_path)
    (last,) = journal.read().resources  # the ones before it were forgotten, since each was verified gone
    assert last.settled
    assert still_present(connect(), journal) == []
