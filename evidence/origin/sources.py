"""What is to be verified, by where it lies: a folder, a ZIP, or a suite result with its envelope beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import stat_result
from pathlib import Path

from benchsite.lib.folder import FileState, Folder
from evidence.origin.archive import Archive
from evidence.origin.statement import SUITE_PATH


class SourceProblem(ValueError):
    """There is nothing at the place that could be verified."""

    code = "input.no_evidence"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class SuiteAlone(Folder):
    """A suite result as if it lay in its run's folder; envelopes are looked for beside it."""

    def __init__(self, suite: Path) -> None:
        super().__init__(suite.parent)
        self._suite = suite.name

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[int, stat_result]]:
        with super().open(self._suite if path == SUITE_PATH else path.rpartition("/")[2]) as opened:
            yield opened

    def sha256(self, path: str, *, limit: int) -> tuple[FileState, int, str | None]:
        return super().sha256(path, limit=limit) if path == SUITE_PATH else (FileState.MISSING, 0, None)


@contextmanager
def opened(path: Path) -> Iterator[tuple[Folder, bool]]:
    """The files at `path`, and whether they are a suite result alone.

    Raises SourceProblem, and archive.ArchiveProblem for a ZIP that is refused.
    """
    try:
        folder = path.is_dir()
        file = path.open("rb") if path.is_file() else None
    except OSError as error:
        raise SourceProblem(f"There is nothing at {path} that can be read ({error.strerror}).") from error
    if folder:
        yield Folder(path), False
        return
    if file is None:
        raise SourceProblem(f"There is no folder and no file at {path}.")
    with file:
        start = file.read(4)
        if start[:2] == b"PK":
            yield Archive(file), False
        elif start[:1] == b"{":
            yield SuiteAlone(path), True
        else:
            raise SourceProblem(f"{path} is no folder, no ZIP and no suite result.")
