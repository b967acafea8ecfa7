"""One step of a trajectory of any format, and the pairing of its calls with their results."""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from evidence.trajectory.text import Text


class Link(StrEnum):
    """How a result was tied to its call: by id, only by order, or by an id that names more than one."""

    ID = "id"
    ORDER = "order"
    AMBIGUOUS = "ambiguous"


class LedgerMatch(StrEnum):
    """A step against the gateway's ledger."""

    MATCHES = "matches"
    DIFFERS = "differs"
    NOT_COMPARED = "not_compared"


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave back. `failed` when its return code is not 0 or an exception is named."""

    text: Text
    call_id: str | None = None
    returncode: int | None = None
    exception: Text | None = None
    link: Link | None = None

    @property
    def failed(self) -> bool:
        return self.returncode not in (0, None) or self.exception is not None


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Text
    call_id: str | None = None
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Metrics:
    """Tokens and cost of one step; None is not reported, never 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `source` is system, user, agent, exit or unknown; `problems` are stable words.

    `digests` are what the gateway may have recorded for this step's answer, best guess first; empty when the
    step is no answer of a model or its answer cannot be rebuilt. `number` and `ledger` are set by the reader.

    A step of the gateway's own transcript has `notes`, stable words too, and what the agent's own file has beside it:
    `agent_says` is same, other or missing, None when there is nothing to compare, and `agent_step` which step.
    """

    source: str
    message: Text
    reasoning: Text | None = None
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    metrics: Metrics | None = None
    at: str | None = None
    model: str | None = None
    step_id: str | None = None
    copied: bool = False
    exit_status: str | None = None
    problems: tuple[str, ...] = ()
    is_answer: bool = False
    digests: tuple[str, ...] = ()
    number: int = 0
    ledger: LedgerMatch = LedgerMatch.NOT_COMPARED
    notes: tuple[str, ...] = ()
    agent_says: str | None = None
    agent_step: int | None = None

    @property
    def failed(self) -> bool:
        every = (*self.results, *(result for call in self.calls for result in call.results))
        return any(result.failed for result in every) or "format_error" in self.problems


def parse_entry(data: bytes) -> Any:
    """One JSON value, leniently: bad UTF-8 is replaced, NaN and lone surrogates pass. Raises ValueError."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def pair(calls: Sequence[Call], results: Sequence[Result]) -> tuple[tuple[Call, ...], tuple[Result, ...], list[str]]:
    """Ties results to calls by id, else by order; returns calls, results that are left over, and problems."""
    counts = Counter(call.call_id for call in calls if call.call_id)
    asked = Counter(result.call_id for result in results if result.call_id)
    doubtful = {name for name in asked if counts[name] > 1 or asked[name] > 1}
    links = _Links(calls, doubtful)
    left = [result for result in results if not links.tie(result)]
    problems = []
    if doubtful:
        problems.append("ambiguous_link")
    if left and calls:
        problems.append("result_without_call")
    paired = tuple(
        Call(call.name, call.arguments, call.call_id, tuple(own)) for call, own in zip(calls, links.taken, strict=True)
    )
    return paired, tuple(left), problems


class _Links:
    """The results that each call has so far. Each look is short however many calls there are: an agent wrote them."""

    def __init__(self, calls: Sequence[Call], doubtful: set[str]) -> None:
        self.taken: list[list[Result]] = [[] for _ in calls]
        self._doubtful = doubtful
        self._order = deque(range(len(calls)))
        self._first: dict[str | None, int] = {}
        self._named: defaultdict[str | None, deque[int]] = defaultdict(deque)
        for index, call in enumerate(calls):
            self._first.setdefault(call.call_id, index)
            self._named[call.call_id].append(index)

    def tie(self, result: Result) -> bool:
        """Give the result to its call; False when there is none."""
        index, link = self._target(result.call_id)
        if index is None:
            return False
        self.taken[index].append(Result(result.text, result.call_id, result.returncode, result.exception, link))
        return True

    def _target(self, call_id: str | None) -> tuple[int | None, Link]:
        if call_id is None:
            return self._unused(self._order), Link.ORDER
        first = self._first.get(call_id)
        if first is None or call_id not in self._doubtful:
            return first, Link.ID
        unused = self._unused(self._named[call_id])
        return (first if unused is None else unused), Link.AMBIGUOUS

    def _unused(self, indices: deque[int]) -> int | None:
        """The first call without a result; those before it are forgotten, since they never lose theirs."""
        while indices and self.taken[indices[0]]:
            indices.popleft()
        return indices[0] if indices else None


class Fields:
    """Takes typed fields of one JSON object; what has another type is a problem, not an error."""

    def __init__(self, value: Any, problems: list[str], where: str = "step") -> None:
        self.value: dict[str, Any] = value if isinstance(value, dict) else {}
        self.problems = problems
        self.where = where
        if not isinstance(value, dict) and value is not None:
            problems.append(f"{where}_not_an_object")

    def text(self, key: str) -> str | None:
        return self._typed(key, str)

    def flag(self, key: str) -> bool:
        return self._typed(key, bool) is True

    def count(self, key: str) -> int | None:
        """A number of things, never negative; a whole float such as 12.0 counts."""
        value = self.value.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if type(value) is int and 0 <= value < 2**53:
            return value
        self.problems.append(f"{self.where}.{key}")
        return None

    def amount(self, key: str) -> float | None:
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
            return float(value)
        self.problems.append(f"{self.where}.{key}")
        return None

    def below(self, key: str) -> "Fields":
        return Fields(self.value.get(key), self.problems, key)

    def items(self, key: str) -> list[Any]:
        return self._typed(key, list) or []

    def _typed[T](self, key: str, kind: type[T]) -> T | None:
        value = self.value.get(key)
        if value is None or isinstance(value, kind):
            return value
        self.problems.append(f"{self.where}.{key}")
        return None
