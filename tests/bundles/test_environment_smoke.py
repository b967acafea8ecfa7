"""The packaged bundle grades as it should, tried without containers (the certification tries it within)."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from runs.documents.bundle.certification import Case, cases_of
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from tests.bundles.local_grader import LocalGrader

TASKS = read_bundle(ENVIRONMENT_SMOKE).task_names
GRADER = LocalGrader()
CASES = [
    pytest.param(task, case, id=f"{task}-{case.name}")
    for task in TASKS
    for case in cases_of(ENVIRONMENT_SMOKE, task, GRADER)
]


@pytest.mark.parametrize(("task", "case"), CASES)
def test_a_case_is_graded_as_it_must_with_exit_0_and_one_reward_file(task: str, case: Case, tmp_path: Path) -> None:
    case.prepare(tmp_path)
    result = GRADER.grade(ENVIRONMENT_SMOKE / "tasks" / task, tmp_path)
    assert (result.exit_code, result.reward) == (0, case.expected)
    assert list(result.reward_files) == ["reward.json"]
    assert b"Traceback" not in result.output


@pytest.mark.parametrize("task", TASKS)
def test_the_same_artifacts_give_the_same_bytes_twice(task, tmp_path):
    for number, case in enumerate(case for case in cases_of(ENVIRONMENT_SMOKE, task, GRADER) if case.repeated):
        roots = [tmp_path / f"{number}-{turn}" for turn in (1, 2)]
        for root in roots:
            root.mkdir()
            case.prepare(root)
        first, second = (GRADER.grade(ENVIRONMENT_SMOKE / "tasks" / task, root) for root in roots)
        assert first == second


@pytest.mark.parametrize("task", TASKS)
def test_the_verifier_grades_against_the_very_input_that_the_agent_gets(task):
    folder = ENVIRONMENT_SMOKE / "tasks" / task
    given = {path.relative_to(folder / "environment"): path.read_bytes() for path in files(folder / "environment")}
    own = {path.relative_to(folder / "tests/input"): path.read_bytes() for path in files(folder / "tests/input")}
    assert given == own


def test_the_reading_of_artifacts_is_the_same_in_every_task():
    assert len({(ENVIRONMENT_SMOKE / "tasks" / task / "tests/grading.py").read_bytes() for task in TASKS}) == 1
    assert len({(ENVIRONMENT_SMOKE / "tasks" / task / "tests/test.sh").read_bytes() for task in TASKS}) == 1


@pytest.mark.parametrize("task", TASKS)
def test_the_instruction_names_every_file_that_the_verifier_reads(task):
    folder = ENVIRONMENT_SMOKE / "tasks" / task
    instruction = (folder / "instruction.md").read_text()
    program = (folder / "tests/verify.py").read_text()
    read = {
        word.strip("\"'") for word in program.replace(",", " ").replace(")", " ").split() if word.endswith(('.json"',))
    }
    read -= {path.name for path in files(folder / "environment")}
    assert read
    for name in read:
        assert f"/app/output/{name}" in instruction


@pytest.mark.parametrize("task", TASKS)
def test_the_reward_is_written_last_and_in_one_step(task, tmp_path):
    """A reward folder that cannot take the file must end the verifier with an error, never half a reward."""
    (tmp_path / "logs").mkdir()
    program = ENVIRONMENT_SMOKE / "tasks" / task / "tests" / "verify.py"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(program), "--root", str(tmp_path)], capture_output=True, check=False
    )
    assert ended.returncode != 0
    assert list((tmp_path / "logs").iterdir()) == []


@pytest.mark.parametrize("task", TASKS)
def test_a_broken_input_of_its_own_is_no_verdict(task, tmp_path):
    folder = shutil.copytree(ENVIRONMENT_SMOKE / "tasks" / task, tmp_path / task)
    for path in files(folder / "tests/input"):
        path.unlink()
    root = tmp_path / "root"
    root.mkdir()
    if task == "file-tree":
        shutil.rmtree(folder / "tests/input")
    result = GRADER.grade(folder, root)
    assert (result.exit_code == 0, result.reward_files) == (False, {})


@pytest.mark.parametrize("task", TASKS)
def test_the_verifier_never_works_in_the_artifacts_folder_and_runs_python_isolated(task):
    script = (ENVIRONMENT_SMOKE / "tasks" / task / "tests/test.sh").read_text()
    assert "cd /tests" in script
    assert "python3 -I -S -B" in script
    config = tomllib.loads((ENVIRONMENT_SMOKE / "tasks" / task / "task.toml").read_text())
    assert config["verifier"]["environment"]["workdir"] == "/tests"


def files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]
