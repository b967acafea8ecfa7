"""Recovers what a crash left behind on this host; executes nothing again."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs import access
from runs.management.output import Exit, SiteCommand


class Command(SiteCommand):
    help = "Conclude lost runs, retry cleanups, put lost jobs. Exit 0 when clean, 6 when something is left."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--worker", default=settings.WORKER_NAME, help="name of this host's worker")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.CLEAN)
        from runs.engine.recovery import recover  # only workers import the engine

        report = recover(options["worker"], every_folder=True)
        document = report.as_json()
        for word, keys in document.items():
            for key in keys:
                self.output.line(f"{word.replace('_', ' ')}: {key}")
        self.output.line("clean" if report.clean else "not everything is clean")
        self.output.json("benchsite.recovery/v1", {**document, "clean": report.clean})
        return Exit.DONE if report.clean else Exit.CLEANUP_FAILED
