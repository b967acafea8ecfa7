"""Tries again to remove what a run left behind; runs nothing and touches no evidence."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs.cleaning import request_cleanup
from runs.management.heartbeat import heartbeat
from runs.management.output import Exit, SiteCommand, run_by_key
from runs.management.run_words import RUN_SCHEMA, run_json
from runs.models import Cleanup, Run


class Command(SiteCommand):
    help = "Retry a run's cleanup, here or by its worker. Exit 0 when clean or asked for, 6 when failed."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="run id, or its first 8 characters or more")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        run = run_by_key(options["run"])
        here = run.lease_host == settings.WORKER_HOST
        asked = request_cleanup(user=user, run=run, put=not here)
        if asked and here:
            from runs.engine.recovery import retry_cleanup  # only workers import the engine

            with heartbeat(self.output, f"cleaning up run {run.key}"):
                retry_cleanup(run.key)
        run = run_by_key(run.key)
        self._tell(run, asked=asked, here=here)
        self.output.json(RUN_SCHEMA, run_json(run, private=True))
        return Exit.CLEANUP_FAILED if here and run.cleanup == Cleanup.FAILED else Exit.DONE

    def _tell(self, run: Run, *, asked: bool, here: bool) -> None:
        if asked and not here:
            self.output.line(f"run {run.key}: worker {run.worker.name} was asked to clean up")
        else:
            self.output.line(f"run {run.key}: cleanup {run.cleanup}, verdict {run.verdict} unchanged")
        for resource in run.resources.all():
            if resource.left:
                self.output.line(f"left: {resource.role} {resource.resource_id}: {resource.detail}")
