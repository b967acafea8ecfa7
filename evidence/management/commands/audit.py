"""Re-hashes a run's register and re-derives its results from the stored files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit, error_document
from benchsite.lib.words import counted
from evidence.register.auditing import AuditDifference, NoRoom, audit
from evidence.register.store import StorageFails
from evidence.serializers import audit_document
from runs.management.command import SiteCommand
from runs.management.waiting import heartbeat
from runs.models import Run
from runs.ownership.scratch import scratch
from runs.services import access
from runs.services.access import find_run


class Command(SiteCommand):
    help = "Compare a run's register and results with its stored files. Exit 4 when anything differs."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        parser.add_argument(
            "--replay-verifier", action="store_true", help="also grade the kept artifacts again, on a worker"
        )

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.READ_PRIVATE)
        run = find_run(options["run"])
        try:
            with heartbeat(self.output, f"auditing run {run.key}"), scratch(settings.DATA, "audit") as place:
                report = audit(run, scratch=place, replay=self._replay if options["replay_verifier"] else None)
        except StorageFails:
            raise  # it says nothing of the files, and nothing of the room for their copies
        except (NoRoom, OSError):
            return self.output.error(error_document(NoRoom.code, NoRoom.sentence, Exit.ERROR))
        self.output.table(
            ("difference", "where", "expected", "found"),
            [[found.what, found.where, found.expected, found.found] for found in report.differences]
            + [["unavailable", path, "", ""] for path in report.unavailable],
        )
        word = "nothing differs" if report.clean else counted(len(report.differences), "difference")
        what = "files" if report.expired else f"files and {report.trials} trials"
        self.output.line(f"{report.files} {what} audited: {word}")
        if report.expired:
            self.output.line("private evidence was removed by retention, so no result can be derived again")
        self.output.json(audit_document(run, report))
        return Exit.DONE if report.clean else Exit.ERROR

    def _replay(self, run: Run, folder: Path) -> Iterator[AuditDifference]:
        from runs.engine.grading.replay import ReplayImpossible, replay_verifier  # only workers import the engine

        try:
            replays = replay_verifier(run, folder)
        except ReplayImpossible as error:
            yield AuditDifference("replay_impossible", "every trial", "graded again", error.code)
            self.output.line(error.sentence)
            return
        for replay in replays:
            where = f"trial {replay.trial}"
            self.output.line(f"{where} graded again: {replay.reason or replay.found}")
            if not replay.agrees:
                found = replay.reason or f"reward {replay.found}, exit code {replay.exit_code}"
                yield AuditDifference("replay_differs", where, f"reward {replay.expected}", found)
