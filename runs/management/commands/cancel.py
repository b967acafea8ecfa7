"""Asks a run to end; pressing it twice is harmless."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs.management.following import follow
from runs.management.interrupts import Interrupts
from runs.management.output import Exit, SiteCommand, exit_of
from runs.management.run_words import RUN_SCHEMA, run_json
from runs.management.telling import tell_run
from runs.models import Run
from runs.services import access, lifecycle
from runs.services.run_lookup import find_run

_WORDS = {
    lifecycle.CancelOutcome.CANCELLED: "was queued and is cancelled",
    lifecycle.CancelOutcome.REQUESTED: "is being cancelled",
    lifecycle.CancelOutcome.ALREADY_REQUESTED: "is being cancelled already",
    lifecycle.CancelOutcome.ENDED: "had ended before; nothing is left to stop",
}


class Command(SiteCommand):
    help = (
        "Ask a run to end; asking twice is harmless. Exit 0 once asked; with --wait by the run's verdict, which is 5 "
        "when it was cancelled. Ctrl-C while waiting only stops the waiting."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="run id, or its first 8 characters or more")
        parser.add_argument("--wait", action="store_true", help="wait until the run has ended, telling each change")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.CANCEL)
        run = find_run(options["run"])
        outcome = lifecycle.request_cancel(run.pk, user=user)
        self.output.line(f"run {run.key} {_WORDS[outcome]}")
        run = self._ended(run, user) if options["wait"] else find_run(run.key)
        self.output.json(RUN_SCHEMA, {**run_json(run), "outcome": outcome.value})
        return exit_of(run) if options["wait"] else Exit.DONE

    def _ended(self, run: Run, user: User) -> Run:
        with self.output.progress() as progress:
            # Without signal handlers of its own: the run is being cancelled, so Ctrl-C stops the waiting at once.
            run = follow(run, user=user, say=progress.say, show=progress.show, interrupts=Interrupts())
        tell_run(self.output, run)
        return run
