"""Recovers what a crash left behind on this host; executes nothing again."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.management.waiting import heartbeat
from runs.serializers.runs import recovery_document
from runs.services import access, registry
from runs.services.refusals import Refusal


class Command(SiteCommand):
    help = (
        "Find what a crash left on this host: end runs whose process is gone, retry failed cleanups, put lost "
        "jobs into the queue again. Executes no run again. Exit 3 when another recovery is at work."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--worker", default=settings.WORKER_NAME, metavar="NAME", help="name of this host's worker (%(default)s)"
        )

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.CLEAN)
        if options["worker"] != settings.WORKER_NAME:
            registry.find_worker(options["worker"])  # a slip would look for nothing and call it clean
        from runs.engine.ending.recovery import RecoveryBusy, recover  # only workers import the engine

        try:
            with heartbeat(self.output, "looking for what is left"):
                report = recover(options["worker"], every_folder=True)
        except RecoveryBusy as error:
            raise Refusal(error.sentence, code=error.code) from error
        found = report.as_json()
        for word, keys in found.items():
            for key in keys:
                self.output.line(f"{word.replace('_', ' ')}: {key}")
        self.output.line("clean" if report.clean else "not everything is clean")
        self.output.json(recovery_document(found, clean=report.clean))
        return Exit.DONE if report.clean else Exit.CLEANUP_FAILED
