"""What was used of an endpoint over all of its runs, and what its budgets leave."""

from collections.abc import Mapping
from datetime import UTC, date, datetime

from benchsite.lib.canonical import JsonObject
from benchsite.lib.database import retrying_database
from benchsite.lib.problems import DocumentError
from runs.documents.endpoints import parse_endpoint
from runs.documents.ledger import LedgerReport
from runs.documents.spending import OVER_RUNS, Budgets, Left, Prices
from runs.models import EndpointUsage

_MOST = 2**63 - 1  # what a column holds; it is more than any budget


def used(report: LedgerReport, prices: Prices | None) -> tuple[int, int]:
    """Tokens, and money in pico-units, of all that a ledger's requests used, as far as it was written."""
    usages = [line.usage for asked in report.trials.values() for line in asked.forwarded]
    money = 0 if prices is None else sum(prices.cost(one.prompt, one.cached, one.completion) for one in usages)
    return sum(one.tokens for one in usages), money


@retrying_database
def record(run_key: str, endpoint_name: str, report: LedgerReport, prices: Prices | None) -> None:
    """Write down what the run used until now. Repeatable: what a ledger says replaces what it said before."""
    if report.first_at is None:
        return
    tokens, money = used(report, prices)
    EndpointUsage.objects.update_or_create(
        run_key=run_key,
        defaults={
            "endpoint_name": endpoint_name,
            "day": date.fromisoformat(report.first_at[:10]),
            "tokens": min(tokens, _MOST),
            "money": min(money, _MOST),
            "currency": "" if prices is None else prices.currency,
        },
    )


@retrying_database
def left(endpoint_name: str, budgets: Budgets | None, prices: Prices | None) -> dict[str, Left]:
    """What is left of the budgets over runs, by scope; a day is today (UTC). Other currencies' money does not count."""
    found: dict[str, Left] = {}
    for scope in OVER_RUNS:
        budget = None if budgets is None else budgets.of(scope)
        if budget is None:
            continue
        rows = EndpointUsage.objects.filter(endpoint_name=endpoint_name)
        if scope == "day":
            rows = rows.filter(day=datetime.now(UTC).date())
        amounts = list(rows.values_list("tokens", "money", "currency"))
        currency = None if prices is None else prices.currency
        tokens = sum(tokens for tokens, _, _ in amounts)
        found[scope] = Left.of(budget, tokens, sum(money for _, money, in_ in amounts if in_ == currency))
    return found


def of_record(endpoint_name: str, record: JsonObject) -> dict[str, Left]:
    """What is left, by a stored record; nothing of one that cannot be read."""
    try:
        loaded = parse_endpoint(record).record
    except DocumentError:
        return {}
    return left(endpoint_name, loaded.budgets, loaded.prices)


def reached(left: Mapping[str, Left]) -> str | None:
    """The first of these budgets of which nothing is left, as the gateway calls it: ``budget.day_tokens``."""
    return next((f"budget.{scope}_{one.reached}" for scope, one in left.items() if one.reached), None)
