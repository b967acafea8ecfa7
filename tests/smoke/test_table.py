"""The smoke's table is read at once in a terminal of 80 columns. Pure."""

import io
from types import SimpleNamespace

from rich.console import Console

from runs.management.commands.smoke import HEADINGS, findings, narrow_cells
from runs.management.printing import show_table
from runs.smoke.scenarios import SCENARIOS, ScenarioResult


def row(number, *, left=0, found=()):
    scenario = SCENARIOS[number]
    wanted = scenario.expected
    seen = ScenarioResult(
        wanted.verdict, 3, wanted.evaluated, wanted.passed, 0, 0, 0, wanted.classes, "clean", left, 100.4
    )  # fmt: skip
    return scenario, SimpleNamespace(key="0f3a9c21" * 4, short="0f3a9c21"), seen, list(found)


def test_every_scenario_takes_one_line_of_80_columns():
    rows = [row(number) for number in range(len(SCENARIOS))]
    out = io.StringIO()
    show_table(Console(file=out, width=80), HEADINGS, [narrow_cells(*each) for each in rows])
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["scenario", *[scenario.name for scenario in SCENARIOS]]
    assert max(len(line) for line in lines) <= 80


def test_the_last_finding_counts_what_held_and_what_is_left():
    assert list(findings([row(0), row(1)])) == ["2 of 2 came out as they must, nothing owned is left."]


def test_what_did_not_hold_is_said_below_the_table_with_the_way_to_its_run():
    missed = row(1, left=2, found=["left is 2, expected 0"])
    assert narrow_cells(*missed)[-1] == "NO"
    assert list(findings([row(0), missed])) == [
        "negative did not hold: left is 2, expected 0. See manage.py status 0f3a9c21",
        "1 of 2 came out as they must, 2 owned are left.",
    ]
