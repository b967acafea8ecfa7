"""Asks a run to end; pressing it twice is harmless."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.management.run_text import print_run
from runs.management.waiting import Interrupts, follow
from runs.serializers.errors import exit_of_run
from runs.serializers.runs import run_document
from runs.services import access, lifecycle, transitions
from runs.services.access import find_run

_OUTCOMES = {
    transitions.CancelOutcome.CANCELLED: "was queued and is cancelled",
    transitions.CancelOutcome.REQUESTED: "is being cancelled",
    transitions.CancelOutcome.ALREADY_REQUESTED: "is being cancelled already",
    transitions.CancelOutcome.ENDED: "had ended before; nothing is left to stop",
}


class Command(SiteCommand):
    help = (
        "Ask a run to end; asking again changes nothing. Exit 0 once asked; with --wait the exit code is the "
        "verdict's, 5 when the run was cancelled. Ctrl-C while waiting only stops the waiting."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        parser.add_argument("--wait", action="store_true", help="wait until the run has ended and print each change")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.CANCEL)
        run = find_run(options["run"])
        outcome = lifecycle.request_cancel(run.pk, user=user)
        self.output.line(f"run {run.key} {_OUTCOMES[outcome]}")
        if options["wait"]:
            with self.output.progress() as progress:
                # Without signal handlers of its own: the run is being cancelled, so Ctrl-C stops the waiting at once.
                run = follow(run, user=user, progress=progress, interrupts=Interrupts())
            print_run(self.output, run)
        else:
            run = find_run(run.key)
        self.output.json(run_document(run, outcome=outcome.value))
        return exit_of_run(run) if options["wait"] else Exit.DONE
