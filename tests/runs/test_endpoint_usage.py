"""What runs used of an endpoint counts over all of its runs, once each, and a day's only for the day."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runs.documents.ledger import LedgerReport, read_ledger
from runs.documents.spending import Budgets, Left, Prices
from runs.models import EndpointUsage
from runs.services import endpoint_usage
from tests.evidence.folders import chain, request

pytestmark = pytest.mark.django_db

PRICES = Prices(currency="USD", date="2026-11-30", input="2.50", output="10.00")


def budgets(**scopes: dict[str, Any]) -> Budgets:
    return Budgets.model_validate(scopes)


def ledger(count: int, day: datetime | None = None) -> LedgerReport:
    """Requests of 110 tokens each, on that day; not closed, as while a run lives."""
    at = (day or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    opening = {"kind": "opened", "version": 4, "run_id": "0" * 32, "spec_sha256": None, "nonce": "b" * 32, "at": at}
    return read_ledger(chain([opening, *(request(1, at=at) for _ in range(count))]))


def test_what_runs_used_is_taken_from_what_is_left() -> None:
    known = budgets(day={"tokens": 1000, "money": "1.00"}, total={"tokens": 5000})
    assert endpoint_usage.left("local", known, PRICES) == {
        "day": Left(1000, 10**12), "total": Left(5000, None),
    }  # fmt: skip
    endpoint_usage.record("a" * 32, "local", ledger(2), PRICES)
    endpoint_usage.record("b" * 32, "local", ledger(1), PRICES)
    endpoint_usage.record("c" * 32, "other", ledger(9), PRICES)
    cost = 3 * (100 * 2_500_000 + 10 * 10_000_000)
    assert endpoint_usage.left("local", known, PRICES) == {
        "day": Left(670, 10**12 - cost), "total": Left(4670, None),
    }  # fmt: skip


def test_a_run_counts_once_however_often_its_ledger_is_read() -> None:
    for count in (1, 2, 2):
        endpoint_usage.record("a" * 32, "local", ledger(count), None)
    assert [row.tokens for row in EndpointUsage.objects.all()] == [220]


def test_yesterdays_run_counts_in_total_and_not_for_today() -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    endpoint_usage.record("a" * 32, "local", ledger(2, yesterday), None)
    left = endpoint_usage.left("local", budgets(day={"tokens": 200}, total={"tokens": 200}), None)
    assert left == {"day": Left(200, None), "total": Left(0, None)}
    assert endpoint_usage.reached(left) == "budget.total_tokens"


def test_money_of_another_currency_does_not_count() -> None:
    endpoint_usage.record("a" * 32, "local", ledger(2), PRICES.model_copy(update={"currency": "EUR"}))
    endpoint_usage.record("b" * 32, "local", ledger(2), None)
    assert endpoint_usage.left("local", budgets(day={"money": "1.00"}), PRICES) == {"day": Left(None, 10**12)}


def test_a_ledger_without_a_line_is_no_usage() -> None:
    endpoint_usage.record("a" * 32, "local", read_ledger(b""), PRICES)
    assert not EndpointUsage.objects.exists()


@pytest.mark.parametrize("budget", [{"tokens": 220}, {"money": "0.0007"}])
def test_a_used_up_day_refuses_the_start_of_a_run(budget: dict[str, Any]) -> None:
    endpoint_usage.record("a" * 32, "local", ledger(2), PRICES)
    [measure] = budget
    assert endpoint_usage.reached(endpoint_usage.left("local", budgets(day=budget), PRICES)) == f"budget.day_{measure}"
