"""A budget ends a trial as not evaluated, never as a zero and never as a pass; and no ledger can claim one falsely."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.suite.run_facts import read_run
from evidence.trial.classify import Classification, classify_trial
from evidence.trial.cost import cost_of
from evidence.trial.document import trial_document
from runs.documents.ledger import read_ledger
from runs.documents.spending import Prices, amount_of, pico
from tests.evidence.folders import RunCase, chain, failed_request, passing_run, request
from tests.evidence.variants import reward

PRICES = {"currency": "USD", "date": "2026-06-01", "input": "2.50", "cached_input": "0.25", "output": "10.00"}
OF_ONE = {"trial": None, "run": None, "day": None, "total": None}


def budgets(**scopes: dict[str, Any]) -> dict[str, Any]:
    return OF_ONE | {scope: {"tokens": None, "money": None} | budget for scope, budget in scopes.items()}


def with_budget(prices: dict[str, Any] | None = None, **scopes: dict[str, Any]) -> RunCase:
    """A run whose every trial asks three times, for 110 tokens each."""
    case = passing_run()
    case.spec["endpoint"] |= {"budgets": budgets(**scopes) if scopes else None, "prices": prices}
    case.run["budgets"] = {"left": {}, "reached": None}
    return case


def refusal(code: str, *, trial: int = 1, **changes: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("prompt_tokens", "completion_tokens", "request_sha256", "response_sha256"))
    refused = {"kind": "refused", "code": code, "status": 404, "message_sha256": None, "duration_ms": 1}
    return request(trial, **{**nothing, **refused, **changes})


def refuse_after(case: RunCase, code: str, *, trial: int = 1) -> None:
    """One more request of the trial, which the gateway refused."""
    last = max(number for number, line in enumerate(case.ledger) if line.get("trial") == trial)
    case.ledger.insert(last + 1, refusal(code, trial=trial, at=case.ledger[last]["at"]))


def judged(case: RunCase, tmp_path: Path) -> list[Classification]:
    return [classify_trial(facts) for facts in read_run(case.write(tmp_path / "run")).trials]


def codes(case: RunCase, tmp_path: Path) -> list[str]:
    return [one.code for one in judged(case, tmp_path)]


@pytest.mark.parametrize("grade", [0, 1])
def test_a_trial_that_was_refused_for_its_budget_was_not_evaluated_whatever_its_grade(
    grade: int, tmp_path: Path
) -> None:
    case = with_budget(trial={"tokens": 330})
    if not grade:
        reward(b'{"reward": 0}')(case)
    refuse_after(case, "budget.trial_tokens")
    first, second, third = judged(case, tmp_path)
    assert (first.code, first.reward, first.row) == ("incomplete.budget", None, 6)
    assert "the trial's budget of 330 tokens was used up" in first.sentence
    assert "reward_not_counted" in first.badges
    assert (second.code, third.code) == ("passed.reward_1", "passed.reward_1")


def test_who_reaches_a_budget_with_the_last_request_and_asks_no_more_is_graded(tmp_path: Path) -> None:
    assert codes(with_budget(trial={"tokens": 330}), tmp_path) == ["passed.reward_1"] * 3


def test_nothing_further_starts_after_the_runs_budget(tmp_path: Path) -> None:
    case = with_budget(run={"tokens": 330})
    case.never_started(2, 3)
    case.run["budgets"]["reached"] = "budget.run_tokens"
    first, second, third = judged(case, tmp_path)
    assert first.code == "passed.reward_1"
    assert (second.code, third.code) == ("incomplete.budget", "incomplete.budget")
    assert second.reward is None and "the run's budget of 330 tokens" in second.sentence


def test_a_budget_of_money_is_told_with_its_currency(tmp_path: Path) -> None:
    worth = pico("0.000001") * (100 * 5 // 2 + 10 * 10)  # of one request
    case = with_budget(PRICES, run={"money": amount_of(3 * worth)})
    refuse_after(case, "budget.run_money")
    case.never_started(2, 3)
    case.run["budgets"]["reached"] = "budget.run_money"
    first, *_ = judged(case, tmp_path)
    assert first.code == "incomplete.budget" and f"the run's budget of {amount_of(3 * worth)} USD" in first.sentence


def test_of_a_day_that_is_left_counts_which_other_runs_left(tmp_path: Path) -> None:
    case = with_budget(day={"tokens": 10_000})
    case.run["budgets"]["left"] = {"day": {"tokens": 330, "money": None}}
    refuse_after(case, "budget.day_tokens")
    case.never_started(2, 3)
    case.run["budgets"]["reached"] = "budget.day_tokens"
    assert codes(case, tmp_path) == ["incomplete.budget"] * 3


FORGED = [
    pytest.param({}, "budget.trial_tokens", "a budget that the spec does not have", id="no budget"),
    pytest.param({"trial": {"tokens": 331}}, "budget.trial_tokens", "a budget that was not reached", id="not reached"),
    pytest.param({"run": {"tokens": 331}}, "budget.run_tokens", "a budget that was not reached", id="run not reached"),
    pytest.param({"trial": {"tokens": 330}}, "budget.run_tokens", "a budget that the spec does not", id="other scope"),
    pytest.param({"trial": {"tokens": 330}}, "budget.trial_money", "a budget that the spec does not", id="measure"),
    pytest.param({"day": {"tokens": 10_000}}, "budget.day_tokens", "a budget that was not reached", id="whole day"),
    pytest.param({"trial": {"tokens": 330}}, "budget.", "a budget that the spec does not", id="no name"),
]


@pytest.mark.parametrize(("scopes", "code", "why"), FORGED)
def test_a_refusal_for_a_budget_that_was_none_is_no_way_out_of_a_failure(
    scopes: dict[str, Any], code: str, why: str, tmp_path: Path
) -> None:
    case = with_budget(**scopes)
    reward(b'{"reward": 0}')(case)
    refuse_after(case, code)
    found = judged(case, tmp_path)
    assert {one.code for one in found} == {"integrity.budget_differs"}
    assert why in found[0].sentence


@pytest.mark.parametrize(
    ("scopes", "prices"),
    [
        ({"trial": {"tokens": 220}}, None), ({"run": {"tokens": 220}}, None), ({"total": {"tokens": 329}}, None),
        ({"run": {"money": "0.0007"}}, PRICES),
    ],
)  # fmt: skip
def test_a_run_that_went_on_past_its_budget_counts_no_more(
    scopes: dict[str, Any], prices: dict[str, Any] | None, tmp_path: Path
) -> None:
    found = judged(with_budget(prices, **scopes), tmp_path)
    assert {one.code for one in found} == {"integrity.budget_differs"}
    assert "a request went out after a budget was reached" in found[0].sentence


def test_a_request_that_was_under_way_when_the_budget_was_reached_is_no_alarm(tmp_path: Path) -> None:
    case = with_budget(trial={"tokens": 220})
    case.lines_of(1)[2]["duration_ms"] = 60_000
    for trial in (2, 3):
        case.answer_with(trial, {})
    assert codes(case, tmp_path) == ["passed.reward_1"] * 3


def test_the_record_cannot_name_a_budget_that_the_spec_does_not_have(tmp_path: Path) -> None:
    case = with_budget(trial={"tokens": 10_000})
    case.never_started(2, 3)
    case.run["budgets"]["reached"] = "budget.run_tokens"
    assert set(codes(case, tmp_path)) == {"integrity.budget_differs"}


@pytest.mark.parametrize("reached", ["budget.week_tokens", "run_tokens", 1, ["budget.run_tokens"]])
def test_a_mistyped_record_of_budgets_is_refused(reached: object, tmp_path: Path) -> None:
    case = with_budget(run={"tokens": 330})
    case.run["budgets"]["reached"] = reached
    assert set(codes(case, tmp_path)) == {"integrity.run_unreadable"}


def test_who_was_kept_waiting_too_long_was_not_evaluated_if_the_spec_has_a_pace(tmp_path: Path) -> None:
    case = passing_run()
    case.spec["endpoint"]["limits"] = {
        "requests_per_minute": 1, "tokens_per_minute": None, "concurrent_requests": None,
    }  # fmt: skip
    for trial in case.trials:
        for name in ("result", "lock", "job_lock", "job_config", "config", "told"):
            text = json.dumps(getattr(trial, name)).replace('"timeout": 70', '"timeout": 135')
            setattr(trial, name, json.loads(text))
    refuse_after(case, "rate_limit")
    assert codes(case, tmp_path) == ["incomplete.rate_limit", "passed.reward_1", "passed.reward_1"]


def test_nobody_is_refused_for_a_pace_that_the_spec_does_not_have(tmp_path: Path) -> None:
    case = passing_run()
    refuse_after(case, "rate_limit")
    assert set(codes(case, tmp_path)) == {"integrity.budget_differs"}


# Cost


def cost(*lines: dict[str, Any], prices: dict[str, Any] | None = PRICES) -> dict[str, Any] | None:
    opening = {"kind": "opened", "version": 4, "run_id": "0" * 32, "spec_sha256": None, "nonce": "b" * 32}
    report = read_ledger(chain([opening, *(request(1, **line) for line in lines), {"kind": "closed"}]))
    assert report.intact
    known = None if prices is None else Prices.model_validate(prices)
    found = cost_of(report.trial(1).requests, known)
    return None if found is None else found.document


COMPUTED = {"currency": "USD", "basis": "computed", "prices_date": "2026-06-01"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([{}], COMPUTED | {"amount": "0.00035"}),
        ([{}, {}], COMPUTED | {"amount": "0.0007"}),
        ([{"cached_tokens": 40}], COMPUTED | {"amount": "0.00026"}),
        ([{"prompt_tokens": 1, "completion_tokens": 0, "cached_tokens": 1}], COMPUTED | {"amount": "0.00000025"}),
        ([{}, failed_request("status", 503)], COMPUTED | {"amount": "0.00035"}),
        ([], COMPUTED | {"amount": "0.00"}),
        (
            [{"prompt_tokens": None, "estimated_prompt_tokens": 200}],
            COMPUTED | {"basis": "estimated", "amount": "0.0006"},
        ),
        (
            [{"reported_cost": 10**10}, {"reported_cost": 1}],
            {"amount": "0.010000000001", "currency": "USD", "basis": "reported", "prices_date": None},
        ),
        ([{"reported_cost": 10**10}, {}], COMPUTED | {"amount": "0.0007"}),
    ],
)
def test_a_cost_says_where_it_comes_from(lines: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    assert cost(*lines) == expected


def test_without_prices_and_without_a_report_a_cost_is_unknown_and_not_0() -> None:
    assert cost({}, prices=None) is None and cost(prices=None) is None
    assert cost({"reported_cost": 0}, prices=None) == {
        "amount": "0.00", "currency": "USD", "basis": "reported", "prices_date": None,
    }  # fmt: skip
    assert cost({"prompt_tokens": 2**53}, {"prompt_tokens": 2**53}, prices=PRICES | {"input": "999999999"}) is None


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), max_size=30), st.decimals(0, 999, places=6), st.data())
def test_sums_of_costs_are_exact(usages: list[tuple[int, int, int]], price: Any, data: st.DataObject) -> None:
    prices = Prices.model_validate(PRICES | {"input": f"{price:f}", "cached_input": None})
    units = sum(prices.cost(*usage) for usage in usages)
    tokens, said = sum(prompt for prompt, _, _ in usages), sum(said for _, _, said in usages)
    assert units == tokens * int(price * 10**6) + said * 10**7
    assert pico(amount_of(units // 10**6 * 10**6)) == units // 10**6 * 10**6


def test_the_result_of_a_trial_has_its_cost(tmp_path: Path) -> None:
    case = passing_run()
    case.spec["endpoint"]["prices"] = PRICES
    facts = read_run(case.write(tmp_path / "run")).trials[0]
    assert trial_document(facts, classify_trial(facts))["usage"]["cost"] == COMPUTED | {"amount": "0.00105"}
