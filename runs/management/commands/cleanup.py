"""Tries again to remove what a run left, or declares that nothing is left; runs nothing and touches no evidence."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.management.run_text import print_left
from runs.models import Cleanup, Run
from runs.serializers.runs import run_document
from runs.services.access import find_run
from runs.services.cleaning import declare_resolved, request_cleanup
from runs.services.refusals import BadInput


class Command(SiteCommand):
    help = (
        "Try again to remove what a run left behind, here or through its worker; or declare a cleanup resolved "
        "that cannot be verified. Changes neither verdict nor evidence."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        parser.add_argument(
            "--declare-resolved", action="store_true",
            help="record that a person looked at the host and that nothing is left; needs --reason",
        )  # fmt: skip
        parser.add_argument(
            "--reason", default="", metavar="TEXT", help="who looked, where, and why it cannot be verified"
        )

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        run = find_run(options["run"])
        here = run.lease_host == settings.WORKER_HOST
        if options["declare_resolved"]:
            return self._declare(user, run, options["reason"], here=here)
        if options["reason"]:
            raise BadInput("--reason belongs to --declare-resolved.", code="input.reason_alone")
        asked = request_cleanup(user=user, run=run, put=not here)
        if asked and here:
            from runs.engine.ending.recovery import retry_cleanup  # only workers import the engine

            retry_cleanup(run.key)
        run = find_run(run.key)
        if asked and not here:
            self.output.line(f"run {run.key}: worker {run.worker.name} was asked to clean up")
        else:
            self.output.line(f"run {run.key}: cleanup {run.cleanup}, verdict {run.verdict} unchanged")
        print_left(self.output, run)
        self.output.json(run_document(run, private=True))
        return Exit.CLEANUP_FAILED if here and run.cleanup == Cleanup.FAILED else Exit.DONE

    def _declare(self, user: User, run: Run, reason: str, *, here: bool) -> Exit:
        look = None
        if here:
            from runs.engine.ending.leftovers import require_nothing_left  # only workers import the engine

            look = require_nothing_left
        declare_resolved(user=user, run=run, reason=reason, look=look)
        run = find_run(run.key)
        self.output.line(f"run {run.key}: declared resolved, not verified; verdict {run.verdict} unchanged")
        self.output.json(run_document(run, private=True))
        return Exit.DONE
