"""Re-hashes a run's register and re-derives its results from the stored files."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from evidence.auditing import audit
from runs import access
from runs.management.output import Exit, SiteCommand, run_by_key

SCHEMA = "benchsite.audit/v1"


class Command(SiteCommand):
    help = "Compare a run's register and results with its stored files. Exit code 4 when anything differs."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="run id, or its first 8 characters or more")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.READ_PRIVATE)
        run = run_by_key(options["run"])
        report = audit(run)
        self.output.table(
            ("difference", "where", "expected", "found"),
            [[found.what, found.where, found.expected, found.found] for found in report.differences]
            + [["unavailable", path, "", ""] for path in report.unavailable],
        )
        word = "nothing differs" if report.clean else f"{len(report.differences)} differences"
        self.output.line(f"{report.files} files and {report.trials} trials audited: {word}")
        self.output.json(
            SCHEMA,
            {
                "run": run.key,
                "files": report.files,
                "trials": report.trials,
                "clean": report.clean,
                "differences": [difference.as_json() for difference in report.differences],
                "unavailable": list(report.unavailable),
            },
        )
        return Exit.DONE if report.clean else Exit.ERROR
