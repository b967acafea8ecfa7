"""Rules for the names of tasks and their files: the same everywhere a name becomes a file, an id or a URL.

A task's name: 1 to 64 of lower-case ASCII letters, digits and hyphens, beginning and ending with a letter or
digit. So case never tells two tasks apart, and `..`, names with a slash, non-ASCII and 200 characters are
refused, never shortened. A part of a file's path: 1 to 100 of ASCII letters, digits, `.`, `_`, `-` and inner
spaces, beginning with a letter or digit and not ending with a full stop or space. Names that Windows keeps for devices
(`CON`, `nul.txt`) are refused for both: a checkout there could not hold them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator

from benchsite.lib.closed import custom
from benchsite.lib.problems import Problem

MAX_TASK_NAME = 64
MAX_PART = 100
MAX_PATH = 240
_TASK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._ ()-]*[A-Za-z0-9_()-])?")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})


def task_name_problem(name: str, path: str = "") -> Problem | None:
    """What is wrong with a task's name, or None."""
    if not name.isascii():
        return Problem(path, "name.not_ascii", "the name holds characters that are not ASCII")
    if len(name) > MAX_TASK_NAME:
        return Problem(path, "name.too_long", f"the name has {len(name)} characters; at most {MAX_TASK_NAME} are taken")
    if not _TASK.fullmatch(name):
        sentence = "the name is not made of lower-case letters, digits and inner hyphens"
        return Problem(path, "name.bad_form", sentence)
    if _is_device(name):
        return Problem(path, "name.reserved", "the name is kept for a device on some systems")
    return None


def file_path_problem(file: str, path: str = "") -> Problem | None:
    """What is wrong with a file's path relative to its task (`/` between parts), or None."""
    if not file.isascii():
        return Problem(path, "name.not_ascii", "the path holds characters that are not ASCII")
    if len(file) > MAX_PATH:
        return Problem(path, "name.too_long", f"the path has {len(file)} characters; at most {MAX_PATH} are taken")
    parts = file.split("/")
    if any(part in (".", "..") for part in parts) or file.startswith("/") or "\\" in file:
        return Problem(path, "name.outside", "the path leads outside the task")
    if any(len(part) > MAX_PART for part in parts):
        return Problem(path, "name.too_long", f"a part of the path has more than {MAX_PART} characters")
    if any(_is_device(part) for part in parts):
        return Problem(path, "name.reserved", "a part of the path is kept for a device on some systems")
    if not all(_PART.fullmatch(part) for part in parts):
        sentence = "a part of the path begins or ends with, or holds, a character that is not taken"
        return Problem(path, "name.bad_form", sentence)
    return None


def case_problems(paths: Iterable[str]) -> Iterator[Problem]:
    """A problem for each path that differs from an earlier one, or from a folder of one, only in case."""
    seen: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            part = "/".join(parts[:end])
            if seen.setdefault(part.lower(), part) != part:
                yield Problem(path, "name.case_only", "another path differs from it only in upper and lower case")
                break


def _is_device(name: str) -> bool:
    return name.split(".")[0].strip().lower() in _DEVICES


def _valid_task_name(name: str) -> str:
    if problem := task_name_problem(name):
        raise custom(problem.code, problem.sentence)
    return name


TaskName = Annotated[str, AfterValidator(_valid_task_name)]
