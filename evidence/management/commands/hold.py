"""Places or releases a legal hold: an order that a run's evidence must not be removed."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from evidence.register.retention import hold, release
from evidence.serializers import hold_document
from runs.management.command import SiteCommand
from runs.services.access import find_run


class Command(SiteCommand):
    help = "Place a legal hold, which keeps a run's evidence from being removed, or release it."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--reason", metavar="TEXT", help="why the evidence must be kept, 1 to 500 characters")
        what.add_argument("--release", action="store_true", help="release the hold that lies on it")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        run = find_run(options["run"])
        if options["release"]:
            found = release(user=user, run=run)
            self.output.line(f"run {run.key}: {'released' if found else 'no hold lies on it'}")
            self.output.json(hold_document(run, None))
            return Exit.DONE
        placed = hold(user=user, run=run, reason=options["reason"])
        self.output.line(
            f"run {run.key}: held since {placed.placed_at:%Y-%m-%d} by {placed.placed_by_name}: {placed.reason}"
        )
        self.output.json(hold_document(run, placed))
        return Exit.DONE
