"""A run whose budget is used up by its first question: the agent is refused, and nothing further starts."""

import json
from typing import Any

import pytest

from tests.engine.conftest import EndedRun

pytestmark = pytest.mark.harbor_compatibility


def document(run: EndedRun, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / name).read_text())
    return found


def lines_of(run: EndedRun, trial: int) -> list[dict[str, Any]]:
    lines = map(json.loads, (run.folder / "ledger.jsonl").read_text().splitlines())
    return [line for line in lines if line.get("trial") == trial]


def test_the_trial_is_no_zero_and_the_others_do_not_start(budgeted: EndedRun) -> None:
    assert [trial["code"] for trial in budgeted.run["trials"]] == ["incomplete.budget"] * 3
    assert [trial["bucket"] for trial in budgeted.run["trials"]] == ["error"] * 3
    assert budgeted.run["verdict"] == "incomplete"
    assert not (budgeted.folder / "trials" / "3").exists()


def test_the_ledger_says_what_was_used_and_what_was_refused(budgeted: EndedRun) -> None:
    [asked, *refused] = lines_of(budgeted, 1)
    assert (asked["kind"], asked["waited_ms"]) == ("ok", 0) and asked["prompt_tokens"] > 400
    assert refused and {line["code"] for line in refused} == {"budget.run_tokens"}
    assert not lines_of(budgeted, 2)


def test_the_runs_record_says_which_budget_it_was_and_what_was_left_of_the_days(budgeted: EndedRun) -> None:
    assert document(budgeted, "run.json")["budgets"] == {
        "left": {"day": {"tokens": 1_000_000, "money": "10.00"}}, "reached": "budget.run_tokens",
    }  # fmt: skip
