"""How do commands read documents from files, and show what is wrong with them?"""

from collections.abc import Sequence
from pathlib import Path

from benchsite.lib import words
from benchsite.lib.canonical import MAX_DOCUMENT_BYTES
from benchsite.lib.problems import Problem
from runs.services.refusals import BadInput


def read_document(path: Path) -> bytes:
    """A file's bytes, one more than any document may have at most. Raises BadInput `input.no_file`."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        why = (error.strerror or "unknown error").lower()
        raise BadInput(
            f"{path} cannot be read: {why}. Give the path of a file.", code="input.no_file", detail=str(error)
        ) from error


def refusal_line(path: Path, problems: Sequence[Problem]) -> str:
    """What stands on stderr beside the rows or the document with every problem."""
    return f"{path} is refused: {words.counted(len(problems), 'problem')}, the first is {problems[0]}"


def problem_rows(problems: Sequence[Problem]) -> list[tuple[str, str, str]]:
    """Code, path and sentence of each problem."""
    return [(problem.code, problem.path or "(document)", problem.sentence) for problem in problems]
