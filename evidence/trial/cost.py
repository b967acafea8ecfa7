"""What a trial's requests cost: as the endpoint reported it, computed by the spec's prices, or unknown. Pure, exact."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from runs.documents.ledger import LedgerRequest
from runs.documents.spending import Prices, amount_of

# A usage with a cost is OpenRouter's, which is in US dollars.
_REPORTED_IN = "USD"
# More than a database's column holds is no cost that anybody was charged.
_MOST_UNITS = 2**63 - 1

type Basis = Literal["reported", "computed", "estimated"]


@dataclass(frozen=True, slots=True)
class Cost:
    """`units` are pico-units of the currency. `basis`: reported by the endpoint for every request; computed from the
    prices of `prices_date`; estimated when some of the usage behind it is."""

    units: int
    currency: str
    basis: Basis
    prices_date: str | None = None

    @property
    def amount(self) -> str:
        """The exact amount as a decimal text."""
        return amount_of(self.units)

    @property
    def document(self) -> dict[str, Any]:
        """As results and exports hold it."""
        return {
            "amount": self.amount,
            "currency": self.currency,
            "basis": self.basis,
            "prices_date": self.prices_date,
        }


def cost_of(lines: Iterable[LedgerRequest], prices: Prices | None) -> Cost | None:
    """The cost of what went to the endpoint; None when it is unknown, which is no 0."""
    usages = [line.usage for line in lines if line.reached_endpoint]
    reported = [usage.reported_cost for usage in usages if usage.tokens or usage.reported_cost is not None]
    told = [cost for cost in reported if cost is not None]
    estimated = any(usage.estimated for usage in usages)
    if told and len(told) == len(reported) and not estimated:
        return _bounded(Cost(sum(told), _REPORTED_IN, "reported"))
    if prices is None:
        return None
    units = sum(prices.cost(usage.prompt, usage.cached, usage.completion) for usage in usages)
    return _bounded(Cost(units, prices.currency, "estimated" if estimated else "computed", prices.date))


def _bounded(cost: Cost) -> Cost | None:
    return cost if cost.units <= _MOST_UNITS else None
