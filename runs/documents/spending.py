"""What an endpoint's tokens cost, how fast it may be asked, and how much may be used: parts of its record and of specs.

Amounts of money are decimal texts in documents and whole pico-units (a millionth of a millionth of the currency) in
sums: a price for a million tokens with six decimals is a whole number of them for each token, so nothing is rounded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from benchsite.lib.canonical import JsonObject
from benchsite.lib.closed import Closed, custom, form
from benchsite.lib.problems import Problem

_AMOUNT = r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?$"
_WANTED = "an amount as a text with at most six decimals, such as 2.50"
PICO = 10**12
_PER_MILLION = 10**6
# Of a run's budgets those that its gateway is told whole; of the others it is told what other runs left.
OF_THE_RUN = ("trial", "run")
OVER_RUNS = ("day", "total")


def _real_date(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise custom("bad_endpoint.bad_format", "there is no such day") from None
    return text


Amount = Annotated[str, form(_AMOUNT, _WANTED)]
Currency = Annotated[str, form(r"^[A-Z]{3}$", "a currency's code of three capitals, such as USD")]
Day = Annotated[str, form(r"^\d{4}-\d{2}-\d{2}$", "a day as 2026-11-30"), AfterValidator(_real_date)]


class _NotEmpty(Closed):
    """At least one of its fields is set: an object that says nothing has no effect."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise custom("bad_endpoint.empty", "it sets nothing; leave it out")
        return self


class Prices(Closed):
    """For a million tokens, as they were on a day. Without `cached_input` cached tokens cost what others do."""

    currency: Currency
    date: Day
    input: Amount
    cached_input: Amount | None = None
    output: Amount

    @property
    def per_token(self) -> tuple[int, int, int]:
        """Pico-units for one token of input, of cached input and of output."""
        cached = self.input if self.cached_input is None else self.cached_input
        return (_of_token(self.input), _of_token(cached), _of_token(self.output))

    def cost(self, prompt: int, cached: int, completion: int) -> int:
        """Pico-units for these tokens; `cached` are some of `prompt`."""
        fresh, known, said = self.per_token
        cached = min(cached, prompt)
        return (prompt - cached) * fresh + cached * known + completion * said


class RateLimits(_NotEmpty):
    """What the gateway of each run holds; who asks too soon waits."""

    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1, le=10**9)] | None = None
    concurrent_requests: Annotated[int, Field(ge=1, le=1_000)] | None = None


class Budget(_NotEmpty):
    """How many tokens, input and output together, and how much money in the currency of the prices."""

    tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    money: Amount | None = None


class Budgets(_NotEmpty):
    """Of each trial, of each run, and of the endpoint's name over all runs: for a day (UTC) and for ever."""

    trial: Budget | None = None
    run: Budget | None = None
    day: Budget | None = None
    total: Budget | None = None

    def of(self, scope: str) -> Budget | None:
        """The budget of `trial`, `run`, `day` or `total`."""
        found: Budget | None = getattr(self, scope)
        return found


@dataclass(frozen=True, slots=True)
class Left:
    """What of a budget may still be used: tokens, and money in pico-units; None has no bound."""

    tokens: int | None = None
    money: int | None = None

    @classmethod
    def of(cls, budget: Budget | None, tokens: int = 0, money: int = 0) -> "Left":
        """What is left of `budget` when that much was used; all of it without."""
        if budget is None:
            return cls()
        return cls(
            None if budget.tokens is None else max(0, budget.tokens - tokens),
            None if budget.money is None else max(0, pico(budget.money) - money),
        )

    @property
    def reached(self) -> str:
        """`tokens` or `money` when nothing is left of it, else empty."""
        return "tokens" if self.tokens == 0 else "money" if self.money == 0 else ""


def left_document(left: Mapping[str, Left]) -> JsonObject:
    """What is left of budgets, by scope, as documents hold it."""
    return {
        scope: {"tokens": one.tokens, "money": None if one.money is None else amount_of(one.money)}
        for scope, one in left.items()
    }


def gateway_spending(
    prices: Prices | None, limits: RateLimits | None, budgets: Budgets | None, left: Mapping[str, Left]
) -> JsonObject:
    """What a gateway is told of prices, pace and budgets; `left` of those over runs, by scope."""
    caps = [
        {"scope": scope, "tokens": cap.tokens, "money": cap.money}
        for scope in (*OF_THE_RUN, *OVER_RUNS)
        if (budget := budgets.of(scope) if budgets is not None else None) is not None
        for cap in (left[scope] if scope in OVER_RUNS else Left.of(budget),)
    ]
    pace = limits.model_dump() if limits is not None else dict.fromkeys(RateLimits.model_fields)
    return {"prices": [*prices.per_token] if prices is not None else [0, 0, 0], "caps": caps, **pace}


_WHOSE = {
    "trial": "the trial's budget",
    "run": "the run's budget",
    "day": "the endpoint's budget for a day",
    "total": "the endpoint's budget over all runs",
}


def budget_words(code: str, budgets: Budgets | None, prices: Prices | None) -> str:
    """The budget of a code of the gateway, such as `budget.run_tokens`, with its number."""
    scope, _, measure = code.removeprefix("budget.").partition("_")
    budget = budgets.of(scope) if budgets is not None and scope in _WHOSE else None
    if budget is None:
        return "a budget"
    if measure == "tokens" and budget.tokens is not None:
        return f"{_WHOSE[scope]} of {budget.tokens:,} tokens"
    if budget.money is None:
        return _WHOSE[scope]
    return f"{_WHOSE[scope]} of {budget.money} {prices.currency if prices is not None else ''}".rstrip()


def spending_problems(document: JsonObject) -> Iterator[Problem]:
    """What a record's budgets lack beside themselves, as far as the document can be read."""
    budgets = document.get("budgets")
    for scope, budget in (budgets if isinstance(budgets, dict) else {}).items():
        money = budget.get("money") if isinstance(budget, dict) else None
        if not isinstance(money, str):
            continue
        if money.strip("0.") == "":
            yield Problem(f"budgets.{scope}.money", "bad_endpoint.below_minimum", "a budget of nothing allows nothing")
        elif document.get("prices") is None:
            sentence = "money is counted by the record's prices, and it has none; name them, or a budget of tokens"
            yield Problem(f"budgets.{scope}.money", "endpoint.budget_without_prices", sentence)
        elif _is_free(document["prices"]):
            sentence = "all prices are 0, so that money is never used up; name a budget of tokens"
            yield Problem(f"budgets.{scope}.money", "endpoint.budget_without_prices", sentence)


def pico(amount: str) -> int:
    """An amount as whole pico-units."""
    return int(Decimal(amount) * PICO)


def amount_of(units: int) -> str:
    """Pico-units as an exact decimal text, at least with two decimals: 0.0000025, 1.50."""
    whole, rest = divmod(units, PICO)
    return f"{whole}.{f'{rest:012d}'.rstrip('0'):0<2}"


def _of_token(price: str) -> int:
    return int(Decimal(price) * PICO) // _PER_MILLION


def _is_free(prices: Any) -> bool:
    values = [prices.get(name) for name in ("input", "cached_input", "output")] if isinstance(prices, dict) else []
    return bool(values) and all(value is None or (isinstance(value, str) and not value.strip("0.")) for value in values)
