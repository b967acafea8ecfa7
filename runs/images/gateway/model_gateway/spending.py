"""What was used up, and whether another request may go out: tokens and money as the endpoint reported, and the pace.

Money is whole pico-units, so that sums are exact. Where usage is not reported it is estimated from the bytes that went
out and came back, and the ledger says so. A reached budget refuses the next request; one that is under way when it is
reached ends as it ends. A request that comes before its turn waits for it.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from .admission import NotAdmitted
from .config import Spending
from .ledger import Entry

# An agent is told to wait this much longer for its answer (runs/engine/trials/harbor_config.py).
WAIT_SECONDS = 65.0
_WINDOW_SECONDS = 60.0
# Of plain text a token has about four bytes, of code and of other scripts fewer.
BYTES_PER_TOKEN = 3
# No answer of the endpoint's model came of these, and nothing is charged for them.
_NEVER_ARRIVED = frozenset({"unreachable", "tls", "address_refused"})

Waiting = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]


class Spent:
    """The budgets and the pace of one gateway. `clock` gives seconds, `sleep` waits for some."""

    def __init__(
        self,
        spending: Spending,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._spending = spending
        self._clock, self._sleep = clock, sleep
        self._tokens: Counter[int | None] = Counter()
        self._money: Counter[int | None] = Counter()
        self._asked: deque[float] = deque()
        self._used: deque[tuple[float, int]] = deque()
        self._queue = asyncio.Lock()
        most = spending.concurrent_requests
        self._places = None if most is None else asyncio.Semaphore(most)

    @asynccontextmanager
    async def turn(self, trial: int, entry: Entry, waiting: Waiting) -> AsyncIterator[None]:
        """One request's turn at the endpoint; `waiting` awaits it for as long as the asker is there.

        Raises NotAdmitted: budget.<scope>_<tokens|money>, or rate_limit when the turn did not come in time.
        """
        self._check(trial)
        paced = self._spending.paced
        if paced:
            begun = self._clock()
            await waiting(self._wait())
            entry.waited_ms = round((self._clock() - begun) * 1000)
        try:
            self._check(trial)  # while it waited others went on
            yield
        finally:
            if paced and self._places is not None:
                self._places.release()

    def count(self, entry: Entry, bytes_sent: int) -> None:
        """Add what a request used that went out, and put into its entry what of it is an estimate."""
        charged = _charged(entry)
        if entry.prompt_tokens is None and charged:
            entry.estimated_prompt_tokens = _tokens_of(bytes_sent)
        if entry.completion_tokens is None and charged and entry.kind != "answer" and _succeeded(entry.status):
            entry.estimated_completion_tokens = _tokens_of(entry.bytes_out)
        prompt = entry.prompt_tokens or entry.estimated_prompt_tokens or 0
        completion = entry.completion_tokens or entry.estimated_completion_tokens or 0
        cached = min(entry.cached_tokens or 0, prompt)
        used = prompt + completion
        fresh_price, cached_price, completion_price = self._spending.prices
        money = (prompt - cached) * fresh_price + cached * cached_price + completion * completion_price
        for whose in (entry.trial, None):
            self._tokens[whose] += used
            self._money[whose] += money
        if self._spending.paced:
            self._used.append((self._clock(), used))

    def _check(self, trial: int) -> None:
        for cap in self._spending.caps:
            whose = trial if cap.scope == "trial" else None
            if cap.tokens is not None and self._tokens[whose] >= cap.tokens:
                raise NotAdmitted(f"budget.{cap.scope}_tokens")
            if cap.money is not None and self._money[whose] >= cap.money:
                raise NotAdmitted(f"budget.{cap.scope}_money")

    async def _wait(self) -> None:
        """Until there is a place and the last minute has room; who came first goes first."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                # The place is taken last, so that nobody who was given up holds one.
                async with self._queue:
                    while (seconds := self._until_room()) > 0:
                        await self._sleep(seconds)
                    if self._places is not None:
                        await self._places.acquire()
                    self._asked.append(self._clock())
        except TimeoutError:
            raise NotAdmitted("rate_limit") from None

    def _until_room(self) -> float:
        """Seconds until the last minute holds fewer requests and tokens than it may; 0 when it does."""
        now = self._clock()
        for past in (self._asked, self._used):
            while past and _moment(past[0]) <= now - _WINDOW_SECONDS:
                past.popleft()
        until = now
        most, tokens = self._spending.requests_per_minute, self._spending.tokens_per_minute
        if most is not None and len(self._asked) >= most:
            until = max(until, self._asked[len(self._asked) - most] + _WINDOW_SECONDS)
        if tokens is not None:
            left = sum(used for _, used in self._used)
            for at, used in self._used:
                if left < tokens:
                    break
                left -= used
                until = max(until, at + _WINDOW_SECONDS)
        return until - now


def _moment(item: "float | tuple[float, int]") -> float:
    return item if isinstance(item, float) else item[0]


def _tokens_of(count: int) -> int:
    return -(-count // BYTES_PER_TOKEN)


def _succeeded(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def _charged(entry: Entry) -> bool:
    """Whether the endpoint's model may have worked on it: not when the endpoint said no, or was never reached."""
    if entry.api == "count-tokens" or entry.code in _NEVER_ARRIVED:
        return False
    said = entry.said_status if entry.said_status is not None else entry.status
    return said is None or said < 300
