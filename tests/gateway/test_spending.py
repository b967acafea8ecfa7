"""Budgets and pace of the gateway: what is counted, what is refused, and who waits."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from runs.images.gateway.model_gateway.admission import NotAdmitted
from runs.images.gateway.model_gateway.completion import cost
from runs.images.gateway.model_gateway.config import Cap, ConfigError, Spending, parse_config
from runs.images.gateway.model_gateway.ledger import Entry
from runs.images.gateway.model_gateway.spending import WAIT_SECONDS, Spent
from tests.gateway.bodies import completion, encoded
from tests.gateway.process import FREE, configuration, http_answer, raw_endpoint, running

MILLION = 1_000_000


def entry(trial: int = 1, **fields: Any) -> Entry:
    return Entry(**{"trial": trial, "kind": "ok", "status": 200, "bytes_out": 300, **fields})


def reported(prompt: int, completion: int, **fields: Any) -> Entry:
    return entry(prompt_tokens=prompt, completion_tokens=completion, **fields)


async def here(work: Coroutine[Any, Any, None]) -> None:
    await work


def admitted(spent: Spent, trial: int = 1) -> str:
    """The code with which a request is refused now, empty when it goes on."""

    async def ask() -> str:
        try:
            async with spent.turn(trial, Entry(), here):
                return ""
        except NotAdmitted as refused:
            return refused.code

    return asyncio.run(ask())


def test_without_budgets_everything_goes_on() -> None:
    spent = Spent(Spending())
    for _ in range(3):
        spent.count(reported(2**53, 2**53), 10)
    assert admitted(spent) == ""


def test_the_request_that_reaches_a_budget_ends_and_the_next_is_refused() -> None:
    spent = Spent(Spending(caps=(Cap("trial", 100, None),)))
    spent.count(reported(50, 49), 0)
    assert admitted(spent) == ""
    spent.count(reported(1, 500), 0)
    assert admitted(spent) == "budget.trial_tokens"
    assert admitted(spent, trial=2) == ""


@pytest.mark.parametrize("scope", ["run", "day", "total"])
def test_what_any_trial_uses_counts_for_the_budgets_of_all(scope: str) -> None:
    spent = Spent(Spending(caps=(Cap(scope, 100, None),)))
    spent.count(reported(60, 0), 0)
    spent.count(reported(40, 0, trial=2), 0)
    assert admitted(spent, trial=3) == f"budget.{scope}_tokens"


def test_nothing_left_of_a_day_refuses_the_first_request() -> None:
    assert admitted(Spent(Spending(caps=(Cap("day", 0, None),)))) == "budget.day_tokens"
    assert admitted(Spent(Spending(caps=(Cap("day", None, 0),)))) == "budget.day_money"


def test_money_is_counted_exactly_and_cached_tokens_cost_their_own_price() -> None:
    prices = (2_500_000, 250_000, 10_000_000)  # 2.50, 0.25 and 10 for a million
    worth = 60 * prices[0] + 40 * prices[1] + 10 * prices[2]
    spent = Spent(Spending(prices=prices, caps=(Cap("run", None, 3 * worth),)))
    for refused in ("", "", "budget.run_money"):
        spent.count(reported(100, 10, cached_tokens=40), 0)
        assert admitted(spent) == refused


def test_more_cached_tokens_than_tokens_make_nothing_cheaper_than_cached() -> None:
    spent = Spent(Spending(prices=(10, 1, 0), caps=(Cap("run", None, 100),)))
    spent.count(reported(100, 0, cached_tokens=10**6), 0)
    assert admitted(spent) == "budget.run_money"


@pytest.mark.parametrize(
    ("fields", "estimated"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 6}, (None, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (None, None)),
        ({}, (100, 100)),
        ({"prompt_tokens": 7}, (None, 100)),
        ({"completion_tokens": 7}, (100, None)),
        ({"kind": "malformed"}, (100, 100)),
        ({"kind": "answer", "api": "embeddings"}, (100, None)),
        ({"kind": "answer", "api": "count-tokens"}, (None, None)),
        ({"kind": "upstream_error", "status": 429}, (None, None)),
        ({"kind": "upstream_error", "code": "error_in_success", "said_status": 500}, (None, None)),
        ({"kind": "upstream_error", "code": "timeout", "status": None}, (100, None)),
        ({"kind": "upstream_error", "code": "credential_echoed"}, (100, 100)),
        ({"kind": "refused", "code": "client_gone", "status": None}, (100, None)),
        ({"kind": "upstream_error", "code": "unreachable", "status": None}, (None, None)),
        ({"kind": "upstream_error", "code": "tls", "status": None}, (None, None)),
        ({"kind": "upstream_error", "code": "address_refused", "status": None}, (None, None)),
    ],
)
def test_what_the_endpoint_may_charge_for_and_does_not_report_is_estimated(
    fields: dict[str, Any], estimated: tuple[int | None, int | None]
) -> None:
    asked = entry(**fields)
    Spent(Spending()).count(asked, 299)
    assert (asked.estimated_prompt_tokens, asked.estimated_completion_tokens) == estimated


def test_an_estimate_reaches_a_budget_as_a_report_does() -> None:
    spent = Spent(Spending(caps=(Cap("trial", 200, None),)))
    spent.count(entry(), 300)
    assert admitted(spent) == "budget.trial_tokens"


@pytest.mark.parametrize(
    ("said", "pico"),
    [
        (0.1, 10**11), (0.000123456789, 123_456_789), (1, 10**12), (0, 0), (1e-13, 0), (9000, 9 * 10**15),
        ("0.1", None), (True, None), (-1, None), (9001, None), (None, None), ([1], None),
    ],
)  # fmt: skip
def test_a_reported_cost_is_what_was_written_and_nothing_else(said: Any, pico: int | None) -> None:
    assert cost({"cost": said}) == pico


class Clock:
    """Moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def paced(clock: Clock, **pace: int) -> Spent:
    return Spent(Spending(**pace), clock, clock.sleep)


def test_the_request_after_the_last_of_a_minute_waits_until_the_first_is_a_minute_old() -> None:
    clock = Clock()
    spent = paced(clock, requests_per_minute=2)
    assert [admitted(spent) for _ in range(2)] == ["", ""] and not clock.slept
    clock.now += 20
    assert admitted(spent) == ""
    assert clock.slept == [40.0]


def test_tokens_of_a_minute_that_are_used_up_hold_back_the_next_request() -> None:
    clock = Clock()
    spent = paced(clock, tokens_per_minute=100)
    spent.count(reported(60, 0), 0)
    clock.now += 10
    spent.count(reported(60, 0), 0)
    assert admitted(spent) == ""
    assert clock.slept == [50.0]
    assert admitted(spent) == "" and clock.slept == [50.0]


def test_one_answer_of_more_tokens_than_a_minute_has_holds_back_for_a_minute_and_no_longer() -> None:
    clock = Clock()
    spent = paced(clock, tokens_per_minute=100)
    spent.count(reported(10**9, 0), 0)
    assert admitted(spent) == ""
    assert clock.slept == [60.0] and WAIT_SECONDS > 60


def test_how_long_a_request_waited_stands_in_its_entry() -> None:
    clock, asked = Clock(), Entry()
    spent = paced(clock, requests_per_minute=1)

    async def ask() -> None:
        for one in (Entry(), asked):
            async with spent.turn(1, one, here):
                pass

    asyncio.run(ask())
    assert asked.waited_ms == 60_000


def test_only_so_many_requests_are_under_way_and_who_fails_gives_its_place_back() -> None:
    async def course() -> list[str]:
        spent, seen = Spent(Spending(concurrent_requests=1)), []

        async def ask(name: str, until: asyncio.Event) -> None:
            async with spent.turn(1, Entry(), here):
                seen.append(name)
                await until.wait()
                raise RuntimeError(name)

        first, second = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(ask("first", first))]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(ask("second", second)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert seen == ["first"]
        first.set()
        while len(seen) < 2:
            await asyncio.sleep(0)
        second.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen

    assert asyncio.run(course()) == ["first", "second"]


def test_who_is_given_up_while_waiting_holds_no_place() -> None:
    async def course() -> None:
        spent = Spent(Spending(concurrent_requests=1))
        async with spent.turn(1, Entry(), here):
            waiting = asyncio.create_task(spent.turn(1, Entry(), here).__aenter__())
            for _ in range(10):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(60), spent.turn(1, Entry(), here):
            pass

    asyncio.run(course())


def test_while_it_waited_others_may_have_used_the_budget_up() -> None:
    clock = Clock()
    spent = Spent(Spending(caps=(Cap("run", 10, None),), requests_per_minute=1), clock, clock.sleep)
    assert admitted(spent) == ""

    async def meanwhile(work: Coroutine[Any, Any, None]) -> None:
        await work
        spent.count(reported(10, 0), 0)

    async def ask() -> None:
        async with spent.turn(1, Entry(), meanwhile):
            raise AssertionError("it went out")

    with pytest.raises(NotAdmitted, match=r"budget\.run_tokens"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    "change",
    [
        {"prices": [0, 0]}, {"prices": [0, 0, -1]}, {"prices": [0, 0, 1.5]}, {"prices": None}, {"caps": None},
        {"caps": [{"scope": "week", "tokens": 1, "money": None}]}, {"caps": [{"scope": "run", "tokens": 1}]},
        {"caps": [{"scope": "run", "tokens": "1", "money": None}]}, {"caps": [{"scope": "run"}] * 5},
        {"requests_per_minute": 0}, {"tokens_per_minute": True}, {"concurrent_requests": "1"}, {"more": 1},
    ],
)  # fmt: skip
def test_what_is_no_spending_is_no_configuration(change: dict[str, Any]) -> None:
    config = configuration("http://127.0.0.1:1/v1") | {"spending": FREE | change}
    with pytest.raises(ConfigError, match="spending"):
        parse_config(json.dumps(config).encode())


def test_a_real_gateway_lets_nothing_out_after_a_budget_and_its_ledger_says_why() -> None:
    """The endpoint reports 100 tokens a request first and then nothing at all."""
    answers = [completion(usage={"prompt_tokens": 90, "completion_tokens": 10}), completion(usage=None)]
    with raw_endpoint(lambda _: http_answer(answers[min(len(endpoint.heard), 2) - 1])) as endpoint:
        spending = FREE | {"caps": [{"scope": "trial", "tokens": 101, "money": None}]}
        config = configuration(f"http://127.0.0.1:{endpoint.port}/v1", max_steps=50) | {"spending": spending}
        with running(config) as gateway:
            statuses = [gateway.ask(encoded())[0] for _ in range(4)]
            other, _ = gateway.ask(encoded(), trial=2)
            report = gateway.stop()
        assert statuses == [200, 200, 404, 404] and other == 200
        assert len(endpoint.heard) == 3
    lines = report.trial(1).requests
    assert [line.code for line in lines] == [None, None, "budget.trial_tokens", "budget.trial_tokens"]
    assert [line.usage.estimated for line in lines] == [False, True, False, False]
    assert lines[0].usage.tokens == 100 and lines[1].usage.tokens > 1
