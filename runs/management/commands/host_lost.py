"""Ends the runs of a worker host that never comes back; without --yes it only says what would end."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser
from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.serializers.runs import host_lost_document
from runs.services import access, lost_hosts, registry
from runs.services.workers import condition


class Command(SiteCommand):
    help = (
        "Declare a worker's host lost, so that its active runs end as interrupted. Without --yes it only says "
        "which runs would end, and exits with 3."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("worker", metavar="WORKER", help="name of the worker")
        parser.add_argument("--yes", action="store_true", help="do it; without this, only say what would end")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.DECLARE_HOST_LOST)
        worker = registry.find_worker(options["worker"])
        found = words.lowered(condition(worker, timezone.now()).word)
        self.output.line(f"worker {worker.name}: {found}")
        done = bool(options["yes"])
        runs = lost_hosts.declare_host_lost(user=user, worker=worker) if done else lost_hosts.active_runs(worker)
        for run in runs:
            self.output.line(f"run {run.key} {'ended' if done else 'would end'}; what it owned there may still exist")
        if not runs:
            self.output.line("no run is being executed there")
        if not done:
            self.output.line("nothing was done; repeat it with --yes")
        self.output.json(host_lost_document(worker.name, found, runs, declared=done))
        return Exit.DONE if done else Exit.BLOCKED
