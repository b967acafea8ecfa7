"""`manage.py smoke`: does everything work here, end to end? One table; exit 0 only if every expectation held."""

import json
from argparse import ArgumentParser
from typing import IO, Any, cast

from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand
from rich.console import Console
from rich.table import Table

from runs.access import Role
from runs.models import Run
from runs.smoke.driver import make_run, worker_running
from runs.smoke.endpoint import serve
from runs.smoke.scenarios import SCENARIOS, Outcome, Scenario, misses

SCHEMA = "benchsite.smoke/v1"
SENTENCE = "A scripted smoke proves the adapter, never a model."


class Command(BaseCommand):
    help = "Make real runs against the scripted endpoint and compare each with what must come of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
        names = [scenario.name for scenario in SCENARIOS]
        parser.add_argument(
            "--only", action="append", choices=names, help="only this scenario; may be repeated"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = options["only"] or [scenario.name for scenario in SCENARIOS]
        rows = []
        with serve() as endpoint, worker_running():
            user = _smoke_user()
            for scenario in SCENARIOS:
                if scenario.name in wanted:
                    run, outcome = make_run(scenario, endpoint, user, self._say)
                    rows.append((scenario, run, outcome, misses(scenario.expected, outcome)))
        self._print(rows, as_json=options["json"])
        if any(found for *_, found in rows):
            raise SystemExit(1)

    def _say(self, text: str) -> None:
        self.stderr.write(text)

    def _print(self, rows: list[tuple[Scenario, Run, Outcome, list[str]]], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(_document(rows), indent=1))
            return
        table = Table(title="Smoke against the scripted endpoint", caption=SENTENCE, caption_justify="left")
        for heading in ("scenario", "verdict", "evaluated", "passed", "classes", "cleanup", "time", "held"):
            table.add_column(heading)
        for scenario, _run, seen, found in rows:
            table.add_row(
                scenario.name,
                seen.verdict or "not recorded",
                f"{seen.evaluated} of {seen.requested}",
                f"{seen.passed} of {seen.evaluated} evaluated" if seen.evaluated else "nothing evaluated",
                ", ".join(dict.fromkeys(seen.classes)) or "none",
                f"{seen.cleanup}, {seen.left} left",
                f"{seen.seconds:.1f} s",
                "yes" if not found else "NO: " + "; ".join(found),
            )
        Console(file=cast(IO[str], self.stdout._out), width=None if self.stdout.isatty() else 160).print(table)


def _document(rows: list[tuple[Scenario, Run, Outcome, list[str]]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "held": not any(found for *_, found in rows),
        "statement": SENTENCE,
        "runs": [
            {
                "scenario": scenario.name,
                "run": run.key,
                "seconds": round(seen.seconds, 1),
                **{name: getattr(seen, name) for name in _FIELDS},
                "misses": found,
            }
            for scenario, run, seen, found in rows
        ],
    }


_FIELDS = (
    "verdict", "requested", "evaluated", "passed", "failed", "error", "cancelled", "classes", "cleanup", "left",
)  # fmt: skip


def _smoke_user() -> User:
    """The account under which the smoke acts; nobody can sign in with it."""
    user, made = User.objects.get_or_create(username="smoke")
    if made:
        user.set_unusable_password()
        user.save()
    user.groups.add(Group.objects.get(name=Role.OPERATOR.value), Group.objects.get(name=Role.ADMIN.value))
    return user
