"""Shows a run's bounded log, from a cursor on."""

import time
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.models import Run
from runs.serializers.runs import logs_document
from runs.services import access
from runs.services.access import find_run
from runs.services.refusals import BadInput
from runs.services.runlog import read_log

MAX_LIMIT = 1000
_FOLLOW_S = 0.5


class Command(SiteCommand):
    help = (
        "Show a run's log, oldest line first. --json names the cursor to continue with; --follow prints lines "
        "until the run has ended."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        parser.add_argument(
            "--cursor", type=int, default=0, metavar="N", help="number of the first line to show (%(default)s)"
        )
        parser.add_argument(
            "--limit",
            type=int,
            default=200,
            metavar="N",
            help=f"at most this many lines, up to {MAX_LIMIT} (%(default)s)",
        )
        parser.add_argument("--follow", action="store_true", help="continue until the run has ended")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.READ_PRIVATE)
        run, cursor, limit = find_run(options["run"]), options["cursor"], options["limit"]
        if cursor < 0 or not 1 <= limit <= MAX_LIMIT:
            raise BadInput(f"--cursor is 0 or more, --limit is 1 to {MAX_LIMIT}.")
        if options["follow"] and options["json"]:
            raise BadInput("--follow prints lines; use --json with --cursor to poll.")
        cursor = self._print_window(run, cursor, limit)
        while options["follow"]:
            ended = Run.objects.get(pk=run.pk).terminal  # asked first, so that no last line is missed
            before, cursor = cursor, self._print_window(run, cursor, limit)
            if cursor == before:
                if ended:
                    break
                time.sleep(_FOLLOW_S)
        return Exit.DONE

    def _print_window(self, run: Run, cursor: int, limit: int) -> int:
        window = read_log(run, cursor=cursor, limit=limit)
        if window.lines and window.lines[0].seq > cursor:
            self.output.line(f"({window.lines[0].seq - cursor} older lines were dropped)")
        for line in window.lines:
            self.output.line(f"{line.at:%H:%M:%S} {line.source} {line.text}{' (cut)' if line.cut else ''}")
        self.output.json(logs_document(run, window))
        return window.next_cursor
