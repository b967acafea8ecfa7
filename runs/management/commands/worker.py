"""Serves this host's queue: recovers first, then executes one run at a time; TERM drains."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib import environ
from benchsite.lib.serializing import Exit, error_document
from runs.management.command import SiteCommand
from runs.management.waiting import heartbeat
from runs.models import Worker
from runs.serializers.workers import worker_document
from runs.services import access
from runs.services.refusals import BadInput
from runs.services.workers import report_of


class Command(SiteCommand):
    help = (
        "Serve this host's queue until TERM, one run at a time. --report only measures what the host can "
        "enforce, stores the report and stops."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--name", default=settings.WORKER_NAME, metavar="NAME", help="name of this host's worker (%(default)s)"
        )
        parser.add_argument("--burst", action="store_true", help="stop when the queue is empty")
        parser.add_argument(
            "--report", action="store_true", help="measure what the host can enforce, store the report, and stop"
        )
        parser.add_argument(
            "--no-report", action="store_true", help="start with the stored report instead of measuring again"
        )

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.START)
        from runs.engine import worker  # only workers import the engine

        if problem := environ.name_problem(options["name"]):
            raise BadInput(f"--name {options['name']!r}: {problem}.", code="input.bad_worker_name")
        settings.WORKER_NAME = options["name"]  # the forked processes claim runs under this name
        if options["report"]:
            with heartbeat(self.output, "proving what this host can enforce"):
                row = worker.report_capabilities(options["name"])
            return self._print_report(row)
        try:
            worker.serve(options["name"], burst=options["burst"], report=not options["no_report"])
        except worker.AlreadyServed as error:
            raise BadInput(error.sentence, code=error.code) from error
        except worker.QueueUnreachable as error:
            return self.output.error(error_document(error.code, error.sentence, Exit.ERROR))
        self._print_document(options["name"])
        return Exit.DONE

    def _print_report(self, row: Worker) -> Exit:
        report = report_of(row)
        reachable = bool(report.get("engine"))
        self.output.line(f"worker {row.name} on {row.host}: capabilities {row.capability_sha256}")
        for limit in report.get("limits", []):
            word = "enforced" if limit["enforced"] else "NOT enforced"
            self.output.line(f"{limit['name']}: {word} by {limit['mechanism']}")
        if not reachable:
            self.output.line(str((report.get("engine_problem") or {}).get("sentence", "")))
        self._print_document(row.name)
        return Exit.DONE if reachable else Exit.BLOCKED

    def _print_document(self, name: str) -> None:
        """The stored report; a worker that served with --no-report on a new host has none."""
        row = Worker.objects.filter(name=name).first()
        if row is not None and report_of(row):
            self.output.json(worker_document(row))
