"""Makes real runs against the scripted endpoint and compares each with what is expected of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand, acting_user
from runs.management.reports import STATEMENT
from runs.management.waiting import heartbeat
from runs.models import Run
from runs.serializers.runs import smoke_document
from runs.services import access
from runs.services.access import Role
from runs.smoke.driver import make_run, worker_running
from runs.smoke.endpoint import serve
from runs.smoke.scenarios import SCENARIOS, Scenario, ScenarioResult, misses

HEADINGS = ("scenario", "verdict", "graded", "passed", "classes", "time", "held")

type Row = tuple[Scenario, Run, ScenarioResult, list[str]]


class Command(SiteCommand):
    help = (
        "Make real runs against the scripted endpoint and compare each result with the expected one. Exit 1 when "
        "one differs, 3 when something is missing. Proves the installation, never a model."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        names = [scenario.name for scenario in SCENARIOS]
        parser.add_argument("--only", action="append", choices=names, help="only this scenario; may be repeated")

    def user_of(self, options: dict[str, Any]) -> User:
        """Whoever asks for it must be somebody who may start runs; the runs themselves are the smoke's own."""
        access.require(acting_user(options["user"]), access.START)
        return smoke_user()

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        wanted = options["only"] or [scenario.name for scenario in SCENARIOS]
        rows: list[Row] = []
        with heartbeat(self.output, "starting a worker") as say, serve() as endpoint, worker_running(say):
            for scenario in SCENARIOS:
                if scenario.name in wanted:
                    run, outcome = make_run(scenario, endpoint, user, say)
                    rows.append((scenario, run, outcome, misses(scenario.expected, outcome)))
        narrow = self.output.on_terminal  # where the table has to fit into 80 columns
        self.output.table(HEADINGS, [narrow_cells(*row) if narrow else _cells(*row) for row in rows])
        for line in findings(rows):
            self.output.line(line)
        self.output.line(STATEMENT)
        held = not any(found for *_, found in rows)
        self.output.json(smoke_document(_documents(rows), held=held, statement=STATEMENT))
        return Exit.DONE if held else Exit.FAILED


def smoke_user() -> User:
    """The account under which the smoke acts; nobody can sign in with it."""
    user, made = User.objects.get_or_create(username="smoke")
    if made:
        user.set_unusable_password()
        user.save()
    user.groups.set(Group.objects.filter(name__in=[Role.OPERATOR.value, Role.ADMIN.value]))
    return user


def _cells(scenario: Scenario, _run: Run, seen: ScenarioResult, found: list[str]) -> Sequence[str]:
    return (
        scenario.name,
        seen.verdict or "not recorded",
        f"{seen.evaluated} of {seen.requested}",
        f"{seen.passed} of {seen.evaluated}" if seen.evaluated else "nothing graded",
        ", ".join(dict.fromkeys(seen.classes)) or "none",
        f"{seen.cleanup}, {seen.left} left",
        f"{seen.seconds:.1f} s",
        "yes" if not found else "NO: " + "; ".join(found),
    )


def narrow_cells(scenario: Scenario, _run: Run, seen: ScenarioResult, found: list[str]) -> Sequence[str]:
    """A row whose words fit beside each other in 80 columns; ``findings`` says below what it leaves out."""
    return (
        scenario.name,
        seen.verdict or "-",
        f"{seen.evaluated} of {seen.requested}",
        f"{seen.passed} of {seen.evaluated}" if seen.evaluated else "-",
        ", ".join(dict.fromkeys(seen.classes)) or "-",
        f"{seen.seconds:.0f} s",
        "NO" if found else "yes",
    )


def findings(rows: Sequence[Row]) -> Iterator[str]:
    """What needs attention, a line each, then how many runs held and what is left."""
    for scenario, run, _, found in rows:
        if found:
            yield f"{scenario.name} did not hold: {'; '.join(found)}. See manage.py status {run.short}"
    held, left = sum(not found for *_, found in rows), sum(seen.left for _, _, seen, _ in rows)
    yield f"{held} of {len(rows)} came out as they must, {f'{left} owned are' if left else 'nothing owned is'} left."


def _documents(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {"scenario": scenario.name, "run": run.key, **asdict(seen), "seconds": round(seen.seconds, 1), "misses": found}
        for scenario, run, seen, found in rows
    ]
