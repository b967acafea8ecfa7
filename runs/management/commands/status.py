"""Shows one run, or the newest runs."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs import access
from runs.management.output import Exit, SiteCommand, exit_of, run_by_key
from runs.management.run_words import (
    RUN_SCHEMA,
    TRIAL_HEADINGS,
    count_strip,
    run_json,
    state_line,
    trial_rows,
)
from runs.models import Run

_HEADINGS = ("run", "state", "verdict", "cleanup", "counts", "profile", "endpoint", "created")


class Command(SiteCommand):
    help = "Show a run, or the newest ones. With a run that has ended, the exit code is its verdict's."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", nargs="?", help="run id, or its first 8 characters or more")
        parser.add_argument("--limit", type=int, default=20, help="how many runs to list")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW)
        return self._one(user, options["run"]) if options["run"] else self._list(options["limit"])

    def _one(self, user: User, key: str) -> Exit:
        run = run_by_key(key)
        private = access.may(user, access.READ_PRIVATE)
        self.output.line(state_line(run))
        self.output.line(count_strip(run))
        self.output.table(TRIAL_HEADINGS, trial_rows(run))
        if private:
            self._left_behind(run)
        self.output.json(RUN_SCHEMA, run_json(run, private=private))
        return exit_of(run)

    def _left_behind(self, run: Run) -> None:
        for resource in run.resources.all():
            if run.terminal and resource.left:
                self.output.line(f"left: {resource.kind} {resource.role} {resource.resource_id}: {resource.detail}")

    def _list(self, limit: int) -> Exit:
        runs = Run.objects.select_related("profile", "bundle", "endpoint", "worker")
        runs = runs.prefetch_related("trials")[: max(1, min(limit, 200))]
        rows = [
            [run.key, run.state, run.verdict or "-", run.cleanup, count_strip(run), run.profile.name,
             run.endpoint.name, f"{run.created_at:%Y-%m-%d %H:%M:%S}"]
            for run in runs
        ]  # fmt: skip
        self.output.table(_HEADINGS, rows)
        self.output.json("benchsite.runs/v1", {"runs": [run_json(run) for run in runs]})
        return Exit.DONE
