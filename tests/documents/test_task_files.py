"""Task folders: what a bundle must never hold is refused by name."""

import os
import shutil
import socket
import unicodedata
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib.problems import DocumentError
from runs.documents import names
from runs.documents.bundle import task_toml
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.documents.bundle.task_files import read_task
from runs.documents.bundle.tree import MAX_FILE_BYTES, MAX_FILES
from tests.documents.toml_cases import CASES


@pytest.fixture
def task(tmp_path):
    """A copy of a packaged task that a test may change."""
    return shutil.copytree(ENVIRONMENT_SMOKE / "tasks" / "ledger-totals", tmp_path / "ledger-totals")


def problems_of(folder):
    with pytest.raises(DocumentError) as caught:
        read_task(folder)
    return [(problem.code, problem.path) for problem in caught.value.problems]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_a_task_toml_that_asks_for_too_much_is_refused_by_name(task, case):
    text = (task / "task.toml").read_text()
    assert case.old in text
    changed = text.replace(case.old, case.new, 1) if case.old else f"{text}\n{case.new}"
    (task / "task.toml").write_text(changed)
    path = f"task.toml:{case.path}" if case.path else "task.toml"
    assert (case.code, path) in problems_of(task)
    assert {problem for problem in problems_of(task) if problem[1] == path} == {(case.code, path)}


def test_a_packaged_task_is_acceptable(task):
    assert read_task(task).name == "ledger-totals"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("solution/solve.sh", "task.solution"),
        ("tests/solution.py", "task.solution"),
        ("environment/Dockerfile", "task.dockerfile"),
        ("environment/Dockerfile.gpu", "task.dockerfile"),
        ("environment/docker-compose.yaml", "task.compose"),
        ("environment/Compose.yml", "task.compose"),
        ("environment/mini.yaml", "task.agent_config"),
        ("environment/deep/MINI.YML", "task.agent_config"),
        ("environment/mini", "task.agent_config"),
        ("trajectory.json", "task.preset_trajectory"),
        ("environment/mini-swe-agent.trajectory.json", "task.preset_trajectory"),
        ("steps/one/instruction.md", "task.multi_step"),
        (".gitignore", "task.ignore_file"),
        ("tests/__pycache__/x.pyc", "task.unhashed_file"),
        ("tests/verify.pyc", "task.unhashed_file"),
        ("environment/notes~", "task.unhashed_file"),
        ("environment/.DS_Store", "task.unhashed_file"),
        ("tests/sitecustomize.py", "task.python_hook"),
        ("tests/x.pth", "task.python_hook"),
        ("tests/test.bat", "task.unknown_file"),
        ("README.md", "task.unknown_file"),
        ("environment/.hidden", "name.bad_form"),
        ("environment/trailing.", "name.bad_form"),
        ("environment/ space", "name.bad_form"),
        ("environment/semi;colon", "name.bad_form"),
        ("environment/CON", "name.reserved"),
        ("environment/nul.txt", "name.reserved"),
        (f"environment/{'n' * 101}", "name.too_long"),
        ("environment/Ledger.csv", "name.case_only"),
    ],
)
def test_a_file_that_no_task_may_have_is_refused_by_name(task, path, code):
    file = task / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    codes = {found for found, where in problems_of(task) if path.endswith(where.rpartition("/")[2])}
    assert code in codes or (code == "name.case_only" and code in {found for found, _ in problems_of(task)})


def test_a_file_name_that_is_not_ascii_is_refused_and_shown_in_ascii(task):
    (task / "environment" / "naïve.txt").write_text("x")
    assert problems_of(task) == [("name.not_ascii", "environment/na\\xefve.txt")]


def test_a_folder_name_that_is_not_ascii_is_refused(task):
    (task / "environment" / "año").mkdir()
    (task / "environment" / "año" / "x.txt").write_text("x")
    assert ("name.not_ascii", "environment/a\\xf1o/x.txt") in problems_of(task)


def test_a_file_name_that_is_not_even_text_is_refused_and_shown(task):
    (task / "environment" / os.fsdecode(b"\xff.txt")).write_text("x")
    assert problems_of(task) == [("name.not_ascii", "environment/\\udcff.txt")]


@pytest.mark.parametrize("target", ["/etc/passwd", "ledger.csv", "nowhere"])
def test_a_symbolic_link_is_refused_and_never_followed(task, target):
    (task / "environment" / "link").symlink_to(target)
    assert problems_of(task) == [("tree.symlink", "environment/link")]


def test_a_linked_folder_is_refused(task):
    (task / "environment" / "link").symlink_to("/etc", target_is_directory=True)
    assert problems_of(task) == [("tree.symlink", "environment/link")]


def test_a_task_that_is_itself_a_link_is_refused(task):
    (task.parent / "linked").symlink_to(task)
    assert problems_of(task.parent / "linked") == [("tree.unreadable", "")]


def test_a_named_pipe_is_refused_without_waiting_for_it(task):
    os.mkfifo(task / "environment" / "pipe")
    assert problems_of(task) == [("tree.special_file", "environment/pipe")]


def test_a_socket_is_refused(task, monkeypatch):
    monkeypatch.chdir(task / "environment")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert problems_of(task) == [("tree.special_file", "environment/socket")]


def test_a_file_over_the_bound_is_refused_and_the_bound_itself_is_taken(task):
    (task / "environment" / "big").write_bytes(b"x" * MAX_FILE_BYTES)
    read_task(task)
    (task / "environment" / "big").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    assert problems_of(task) == [("tree.oversize", "environment/big")]


def test_a_sparse_file_is_refused_without_reading_it_whole(task):
    with (task / "environment" / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert problems_of(task) == [("tree.oversize", "environment/sparse")]


def test_too_many_files_are_refused(task):
    for number in range(MAX_FILES):
        (task / "environment" / f"file-{number}").write_text("x")
    assert {code for code, _ in problems_of(task)} == {"tree.too_many_files"}


def test_too_many_levels_of_folders_are_refused(task):
    deep = task / "environment" / "/".join("d" * 20)
    deep.mkdir(parents=True)
    assert {code for code, _ in problems_of(task)} == {"tree.too_deep"}


def test_an_empty_folder_is_refused_because_no_hash_covers_it(task):
    (task / "environment" / "empty").mkdir()
    assert problems_of(task) == [("task.empty_folder", "environment/empty")]


@pytest.mark.parametrize("path", ["task.toml", "instruction.md", "tests/test.sh", "environment/ledger.csv"])
def test_a_missing_file_is_named(task, path):
    (task / path).unlink()
    assert ("task.missing_file", path if not path.startswith("environment") else "environment") in problems_of(task)


@pytest.mark.parametrize(("data", "code"), [(b" \n", "task.bad_instruction"), (b"\xff", "task.bad_instruction"),
                                            (b"x" * 70_000, "task.oversize")])  # fmt: skip
def test_an_instruction_that_nobody_can_follow_is_refused(task, data, code):
    (task / "instruction.md").write_bytes(data)
    assert problems_of(task) == [(code, "instruction.md")]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ledger-totals", None),
        ("a", None),
        ("9", None),
        ("n" * 64, None),
        ("n" * 65, "name.too_long"),
        ("n" * 200, "name.too_long"),
        ("Ledger", "name.bad_form"),
        ("ledger_totals", "name.bad_form"),
        ("-a", "name.bad_form"),
        ("a-", "name.bad_form"),
        ("..", "name.bad_form"),
        (".", "name.bad_form"),
        ("", "name.bad_form"),
        ("a/b", "name.bad_form"),
        ("a b", "name.bad_form"),
        ("con", "name.reserved"),
        ("CON", "name.bad_form"),
        ("nul", "name.reserved"),
        ("../ledger", "name.bad_form"),
        ("Ledger-totals", "name.bad_form"),
        ("ledger-totals ", "name.bad_form"),
        ("ｌedger", "name.not_ascii"),
        ("le\u0301dger", "name.not_ascii"),
        ("lеdger", "name.not_ascii"),
        ("lpt1", "name.reserved"),
        ("conf", None),
        ("ledger-tötals", "name.not_ascii"),
        ("ledger\n", "name.bad_form"),
    ],
)
def test_a_tasks_name_is_taken_or_refused_as_documented(name, code):
    problem = names.task_name_problem(name)
    assert (problem and problem.code) == code


@given(st.text(max_size=80) | st.from_regex(r"[a-z0-9-]{1,70}", fullmatch=True))
def test_a_name_that_is_taken_stays_the_same_wherever_it_becomes_a_file_or_an_address(name):
    if names.task_name_problem(name) is None:
        assert (name.casefold(), quote(name, safe=""), Path(name).name) == (name, name, name)
        assert unicodedata.normalize("NFKC", name) == name and 1 <= len(name) <= 64


def test_two_paths_that_differ_only_in_case_are_told():
    found = list(names.case_problems(["a/B.txt", "a/b.txt", "A/c.txt", "a/d.txt"]))
    assert [problem.path for problem in found] == ["a/b.txt", "A/c.txt"]


def test_every_problem_of_a_task_is_told_at_once(task):
    (task / "solution").mkdir()
    (task / "solution" / "solve.sh").write_text("x")
    (task / "environment" / "link").symlink_to("/etc")
    text = (task / "task.toml").read_text().replace('"separate"', '"shared"')
    (task / "task.toml").write_text(text)
    assert {code for code, _ in problems_of(task)} == {"task.solution", "tree.symlink", "task.shared_verifier"}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("environment/Meeting Notes (2).txt", None),
        ("a/../b", "name.outside"),
        ("../a", "name.outside"),
        ("/etc/passwd", "name.outside"),
        ("a\\b", "name.outside"),
        ("./a", "name.outside"),
        ("a//b", "name.bad_form"),
        ("a/", "name.bad_form"),
        ("", "name.bad_form"),
        ("a/AUX.log", "name.reserved"),
        ("CON", "name.reserved"),
        ("con.txt", "name.reserved"),
        ("n" * 100, None),
        ("n" * 101, "name.too_long"),
        ("n" * 200, "name.too_long"),
        ("a/..b", "name.bad_form"),
        ("a/b.", "name.bad_form"),
        ("a/b" * 100, "name.too_long"),
        ("a/ü", "name.not_ascii"),
        ("a\nb", "name.bad_form"),
    ],
)
def test_a_files_path_is_taken_or_refused_as_documented(path, code):
    problem = names.file_path_problem(path)
    assert (problem and problem.code) == code


VALID_TOML = (ENVIRONMENT_SMOKE / "tasks" / "ledger-totals" / "task.toml").read_bytes()


@given(st.integers(0, len(VALID_TOML)), st.integers(0, 40), st.binary(max_size=12))
def test_any_edit_of_a_task_toml_is_read_or_refused_without_an_accident(start, length, inserted):
    edited = VALID_TOML[:start] + inserted + VALID_TOML[start + length :]
    config, problems = task_toml.parse(edited)
    assert (config is None) == bool(problems)
