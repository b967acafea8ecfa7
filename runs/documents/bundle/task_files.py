"""A task's folder, read and judged: its files by name and kind, and what `task.toml` asks for."""

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchsite.lib.problems import DocumentError, Problem
from runs.documents import names
from runs.documents.bundle import checksums, task_toml
from runs.documents.bundle.tree import MAX_FILES, FileRecord, Tree, read_tree

_TOP_FILES = ("task.toml", "instruction.md")
_TOP_FOLDERS = ("environment", "tests")
_REQUIRED = (*_TOP_FILES, "tests/test.sh")
MAX_INSTRUCTION_BYTES = 64 * 1024

# (pattern of a lower-case part of the path, code, sentence); the first that matches names the problem.
_REFUSED = (
    ("mini", "task.agent_config", "the agent would load it as its own configuration"),
    ("mini*.y*ml", "task.agent_config", "the agent would load it as its own configuration"),
    ("*trajectory*.json*", "task.preset_trajectory", "an agent starts afresh"),
    ("dockerfile*", "task.dockerfile", "no image is built for a task"),
    ("containerfile*", "task.dockerfile", "no image is built for a task"),
    ("*compose*.y*ml", "task.compose", "a task's containers are never made by Compose"),
    ("solution", "task.solution", "a solution is no part of a task"),
    ("solution.*", "task.solution", "a solution is no part of a task"),
    ("solve.*", "task.solution", "a solution is no part of a task"),
    (".gitignore", "task.ignore_file", "it would hide files from Harbor's own hash"),
    ("__pycache__", "task.unhashed_file", "Harbor's own hash leaves it out"),
    ("*.py[co]", "task.unhashed_file", "Harbor's own hash leaves it out"),
    ("*.sw[po]", "task.unhashed_file", "Harbor's own hash leaves it out"),
    ("*~", "task.unhashed_file", "Harbor's own hash leaves it out"),
    (".ds_store", "task.unhashed_file", "Harbor's own hash leaves it out"),
    ("sitecustomize.py", "task.python_hook", "Python would run it by itself"),
    ("*.pth", "task.python_hook", "Python would run it by itself"),
)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """An acceptable task. `checksum` and `digest` are Harbor's own two hashes of it."""

    name: str
    title: str
    files: tuple[FileRecord, ...]
    checksum: str
    digest: str
    config: task_toml.TaskToml


def read_task(folder: Path) -> TaskRecord:
    """The task in a folder that is called like it; raises DocumentError with every problem, paths relative to it."""
    tree = read_tree(folder)
    config: task_toml.TaskToml | None = None
    problems: list[Problem] = []
    if "task.toml" in tree.files:
        config, found = task_toml.parse(tree.files["task.toml"])
        for problem in found:
            path = f"task.toml:{problem.path}" if problem.path else "task.toml"
            problems.append(Problem(path, problem.code, problem.sentence))
    name_problem = names.task_name_problem(folder.name)
    problems += [*tree.problems, *([name_problem] if name_problem else []), *_file_problems(tree)]
    if problems or config is None:
        raise DocumentError(problems)
    records = tree.records
    return TaskRecord(
        name=folder.name,
        title=config.metadata.title,
        files=records,
        checksum=checksums.task_checksum(records),
        digest=checksums.content_digest(records),
        config=config,
    )


def _file_problems(tree: Tree) -> Iterator[Problem]:
    refused = {problem.path for problem in tree.problems}
    for required in () if len(tree.files) >= MAX_FILES else _REQUIRED:
        if required not in tree.files and required not in refused:
            yield Problem(required, "task.missing_file", "a task must have this file")
    if not any(path.startswith("environment/") for path in tree.files):
        yield Problem("environment", "task.missing_file", "a task must have files to work on")
    for path in tree.files:
        yield from _path_problems(path)
    for folder in tree.empty_folders:
        yield Problem(ascii(folder)[1:-1], "task.empty_folder", "no hash covers an empty folder")
    yield from names.case_problems(tree.files)
    data = tree.files.get("instruction.md", b"-")
    if len(data) > MAX_INSTRUCTION_BYTES:
        yield Problem("instruction.md", "task.oversize", f"it is larger than {MAX_INSTRUCTION_BYTES:,} bytes")
    try:
        empty = not data.decode("utf-8").strip()
    except UnicodeDecodeError:
        yield Problem("instruction.md", "task.bad_instruction", "the instruction is not UTF-8")
        return
    if empty:
        yield Problem("instruction.md", "task.bad_instruction", "the instruction is empty")


def _path_problems(path: str) -> Iterator[Problem]:
    shown = ascii(path)[1:-1]
    parts = path.split("/")
    refused = next((_refused(part) for part in parts if _refused(part)), None)
    if refused:
        yield Problem(shown, *refused)
    elif parts[0] == "steps":
        yield Problem(shown, "task.multi_step", "a task has exactly one step")
    elif path == "tests/test.bat" or (parts[0] not in _TOP_FOLDERS and path not in _TOP_FILES):
        yield Problem(shown, "task.unknown_file", "a task has task.toml, instruction.md, environment/ and tests/")
    elif problem := names.file_path_problem(path, shown):
        yield problem


def _refused(part: str) -> tuple[str, str] | None:
    for pattern, code, sentence in _REFUSED:
        if fnmatch.fnmatchcase(part.lower(), pattern):
            return code, sentence
    return None
