"""Where does a CI system find a run's reports? In files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from runs.management.junit import junit_xml
from runs.management.run_words import coverage, strip_of
from runs.management.summary import markdown_summary
from runs.services.refusals import BadInput

type Document = Mapping[str, Any]


class ReportNotWritten(Exception):
    """A report could not be written, though everything else was done."""

    code = "report.not_written"

    def __init__(self, path: Path, error: OSError) -> None:
        self.sentence = f"The report {path} could not be written: {error.strerror}. The run itself is not affected."
        super().__init__(self.sentence)


def _summary(run: Document) -> bytes:
    text = markdown_summary(run, counts=strip_of(run["counts"]), coverage=coverage(run["counts"]))
    return text.encode("utf-8")


_WRITERS: dict[str, Callable[[Document], bytes]] = {"junit": junit_xml, "summary": _summary}


def add_reports(parser: CommandParser) -> None:
    """The options that name the files."""
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit XML report of the run here")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write a Markdown summary of the run here")


def check_reports(options: Mapping[str, Any]) -> None:
    """Raises BadInput ``input.no_target`` before anything starts when a report could not be written at the end.

    What is there already is replaced, so it must be a plain file: /dev/null would be gone for the whole host.
    """
    for name in _WRITERS:
        path: Path | None = options[name]
        if path is None:
            continue
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise BadInput(f"--{name} {path}: there is no folder there to write it in.", code="input.no_target")
        if path.is_symlink() or (path.exists() and not path.is_file()):
            sentence = f"--{name} {path}: a link, device or pipe is there; name a plain file or a new one."
            raise BadInput(sentence, code="input.no_target")


def write_reports(options: Mapping[str, Any], run: Document) -> None:
    """Write what was asked for, replacing older files. Raises ReportNotWritten."""
    for name, writer in _WRITERS.items():
        if options[name] is not None:
            _replace(options[name], writer(run))


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old file or the whole new one."""
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".new")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(temporary).unlink()
        raise ReportNotWritten(path, error) from error
