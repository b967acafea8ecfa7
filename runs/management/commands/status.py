"""Shows one run, or the newest runs."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.management.reports import add_report_options, check_reports, report_run
from runs.management.run_text import count_strip, nonzero_counts, print_left, print_run, state_line
from runs.models import Cleanup, Run
from runs.serializers.runs import counts_of, run_document, runs_document
from runs.services import access
from runs.services.access import find_run
from runs.services.refusals import BadInput

_MOST = 200
_HEADINGS = ("run", "state", "verdict", "cleanup", "counts", "profile", "endpoint", "created")
_NARROW_HEADINGS = ("run", "result", "trials", "endpoint", "created")


class Command(SiteCommand):
    help = (
        "Show a run, or the newest ones. The exit code of a run that has ended is its verdict's; of any other it is 0."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "run",
            nargs="?",
            metavar="RUN",
            help="id of a run, or its first 8 characters or more; without it the newest runs",
        )
        parser.add_argument(
            "--limit", type=int, default=20, metavar="N", help=f"how many runs to list, 1 to {_MOST} (%(default)s)"
        )
        add_report_options(parser)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW)
        if options["run"]:
            return self._show_run(user, options)
        if options["junit"] or options["summary"]:
            raise BadInput("--junit and --summary report one run; name it.")
        if not 1 <= options["limit"] <= _MOST:
            raise BadInput(f"--limit is 1 to {_MOST}.")
        return self._list(options["limit"])

    def _show_run(self, user: User, options: dict[str, Any]) -> Exit:
        run = find_run(options["run"])
        check_reports(options)
        private = access.may(user, access.READ_PRIVATE)
        self.output.line(state_line(run))
        if private:
            print_left(self.output, run)
        print_run(self.output, run)
        return report_run(self.output, run, run_document(run, private=private), options)

    def _list(self, limit: int) -> Exit:
        runs = Run.objects.select_related("profile", "bundle", "endpoint", "worker")
        runs = runs.prefetch_related("trials")[:limit]
        if self.output.on_terminal and not self.output.as_json:
            if not runs:
                self.output.line("There is no run yet. Start one with: manage.py start --endpoint NAME --wait")
            else:
                self.output.table(_NARROW_HEADINGS, [_narrow_cells(run) for run in runs])
            return Exit.DONE
        self.output.table(_HEADINGS, [_cells(run) for run in runs])
        self.output.json(runs_document(runs))
        return Exit.DONE


def _cells(run: Run) -> list[str]:
    created = f"{run.created_at:%Y-%m-%d %H:%M:%S}"
    return [
        run.key, run.state, run.verdict or "-", run.cleanup, count_strip(counts_of(run)), run.profile.name,
        run.endpoint.name, created,
    ]  # fmt: skip


def _narrow_cells(run: Run) -> list[str]:
    """A row that fits into 80 columns: the verdict once there is one, the cleanup only when somebody has to act."""
    result = run.verdict or run.state
    if run.cleanup == Cleanup.FAILED:
        result += ", cleanup failed"
    return [run.short, result, nonzero_counts(run), run.endpoint.name, f"{run.created_at:%Y-%m-%d %H:%M}"]
