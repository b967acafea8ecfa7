"""Reports of a run for CI systems: JUnit XML and a Markdown summary, in files that are written whole or not at all.

Texts from elsewhere hold no character that XML, Markdown, HTML or a forge gives a meaning to: no links, no mentions,
no markup.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from benchsite.lib.serializing import Document, Exit
from runs.management.escaping import escape_for_report
from runs.management.junit import junit_xml, scope
from runs.management.printing import Printer
from runs.management.run_text import count_strip, coverage
from runs.models import Run
from runs.outcomes.codes import CODES
from runs.serializers.errors import exit_of_run
from runs.services.refusals import BadInput

STATEMENT = "A scripted smoke proves the adapter, never a model."


class ReportNotWritten(Exception):
    """A report could not be written, though everything else was done."""

    code = "report.not_written"

    def __init__(self, path: Path, error: OSError) -> None:
        self.sentence = f"The report {path} could not be written: {error.strerror}. The run itself is not affected."
        super().__init__(self.sentence)


def add_report_options(parser: CommandParser) -> None:
    """The options that name the files."""
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit XML report of the run to FILE")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write a Markdown summary of the run to FILE")


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


def report_run(output: Printer, run: Run, document: Document, options: Mapping[str, Any]) -> Exit:
    """Write the reports that were asked for and the JSON document; the exit code is the run's.

    A report that cannot be written changes no verdict, but a pass without its report is no success (4).
    """
    code = exit_of_run(run)
    try:
        write_reports(options, document)
    except ReportNotWritten as error:
        output.warn(error.sentence)
        code = code or Exit.ERROR
    output.json(document)
    return code


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


_CLEANUP_WARNINGS = {
    "pending": "",
    "clean": "",
    "failed": "**Cleanup failed:** something that the run owned may be left behind.",
    "declared": "**Cleanup declared resolved by a person:** nobody verified that nothing is left.",
}


def markdown_summary(run: Document) -> str:
    """The summary of a ``benchsite.run/v1`` document; texts from elsewhere stand in code spans. Pure."""
    return "\n".join(_summary_lines(run)) + "\n"


def _summary_lines(run: Document) -> Iterator[str]:
    yield f"## benchsite: {run['verdict'] or 'no verdict yet'}"
    yield ""
    yield f"{scope(run)}  "
    yield f"{count_strip(run['counts'])}  "
    yield f"**{coverage(run['counts'])}**"
    yield ""
    if warning := _CLEANUP_WARNINGS[run["cleanup"]]:
        yield warning
        yield ""
    if run["failure"] is not None:
        yield f"**The run as a whole failed:** {_reason(run['failure']['code'])}"
        yield ""
    yield "| # | task | result | why | reward | steps |"
    yield "|---|---|---|---|---|---|"
    for trial in run["trials"]:
        result = trial["bucket"] or "not ended"
        why = _reason(trial["code"]) if trial["code"] else ""
        reward = "not graded" if trial["reward"] is None else trial["reward"]
        steps = "not recorded" if trial["steps"] is None else trial["steps"]
        yield f"| {trial['ordinal']} | {_code_span(trial['task'])} | {result} | {why} | {reward} | {steps} |"
    yield ""
    endpoint = f"{run['endpoint']['name']} version {run['endpoint']['version']}"
    yield f"Run {_code_span(run['run'])}, profile {_code_span(run['profile'])}, endpoint {_code_span(endpoint)}, "
    yield f"worker {_code_span(run['worker'])}, spec {_code_span(run['spec_sha256'])}."
    yield ""
    yield STATEMENT


def _reason(code: object) -> str:
    known = CODES.get(str(code))
    return _code_span(code) + (f" {known.title}" if known else "")


def _code_span(text: object) -> str:
    """Text from elsewhere; it holds no backtick and no bar, so the span and the table cell end where they should."""
    return f"`{escape_for_report(str(text))}`"


_WRITERS: dict[str, Callable[[Document], bytes]] = {
    "junit": junit_xml,
    "summary": lambda run: markdown_summary(run).encode("utf-8"),
}
