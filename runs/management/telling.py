"""How is a run told that has ended, or that somebody asks for? Trials first, the count strip last."""

from collections.abc import Iterable, Mapping
from typing import Any

from runs.management.output import Exit, Printer, exit_of
from runs.management.report_files import ReportNotWritten, write_reports
from runs.management.run_words import (
    RUN_SCHEMA,
    TRIAL_HEADINGS,
    count_strip,
    counts_of,
    coverage,
    failure_line,
    trial_rows,
)
from runs.models import Run


def tell_run(output: Printer, run: Run) -> None:
    """The trials, why the run failed as a whole if it did, the coverage, and the counts as the last line."""
    output.table(TRIAL_HEADINGS, trial_rows(run))
    if run.failure_code:
        output.line(failure_line(run))
    output.line(coverage(counts_of(run)))
    output.line(count_strip(run))


def tell_checks(output: Printer, checks: Iterable[Mapping[str, Any]]) -> None:
    """Every check with what it found. On a terminal only those that do not hold need their code, to look it up."""
    rows = []
    for check in checks:
        passed = check["passed"]
        code = "" if passed and output.on_terminal else check["code"]
        what = check["detail"] if passed else f"{check['detail']} {check['remedy']}".strip()
        rows.append(("ok" if passed else check["level"], check["name"], code or "-", what))
    output.table(("", "check", "code", "what"), rows)


def reported(output: Printer, run: Run, document: dict[str, Any], options: Mapping[str, Any]) -> Exit:
    """Write the asked reports and the JSON document; the exit code is the run's.

    A report that cannot be written changes no verdict, but a pass without its report is no success (4).
    """
    code = exit_of(run)
    try:
        write_reports(options, document)
    except ReportNotWritten as error:
        output.complain(error.sentence)
        code = code or Exit.ERROR
    output.json(RUN_SCHEMA, document)
    return code
