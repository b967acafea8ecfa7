"""Tokens and cost of a trial: from one source alone, so that no sum mixes what different people counted."""

import math
from collections.abc import Iterable
from typing import Any

from evidence.imports.description import Usage
from evidence.imports.documents import mapping

_FIELDS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
_METRICS = ("total_prompt_tokens", "total_cached_tokens", "total_completion_tokens", "total_cost_usd")
_MOST = 2**63 - 1


def usage_of(agent_results: list[Any], trajectories: list[dict[str, Any]]) -> tuple[Usage, bool]:
    """From the agent's results (one, or one a step), then per model, then from trajectories; and whether a number was
    none. The first source that reports anything is taken whole: what it leaves out is not reported."""
    results = [mapping(result) for result in agent_results if isinstance(result, dict)]
    of_models = [mapping(usage) for result in results for usage in mapping(result.get("model_usage")).values()]
    metrics = [mapping(trajectory.get("final_metrics")) for trajectory in trajectories]
    for source, fields, parts in (
        ("result", _FIELDS, results),
        ("model_usage", _FIELDS, of_models),
        ("final_metrics", _METRICS, metrics),
    ):
        found, malformed = _sums(parts, fields)
        if any(value is not None for value in found) or malformed:
            tokens = [None if value is None else int(value) for value in found[:3]]
            return Usage(tokens[0], tokens[1], tokens[2], found[3], source), malformed
    return Usage(), False


def _sums(parts: Iterable[dict[str, Any]], fields: tuple[str, ...]) -> tuple[list[float | None], bool]:
    """The sum of each field over all parts; None where one part does not report it."""
    found: list[float | None] = []
    malformed = False
    parts = list(parts)
    for name in fields:
        values = [part.get(name) for part in parts]
        is_cost = name.endswith("usd")
        if not values or None in values:
            found.append(None)
        elif all(_amount(value, is_cost) for value in values):
            found.append(_total(values, is_cost))
        else:
            found.append(None)
            malformed = True
    return found, malformed


def _total(values: list[Any], is_cost: bool) -> float | None:
    total = math.fsum(values) if is_cost else sum(values)
    return total if total <= _MOST else None


def _amount(value: Any, is_cost: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float) if is_cost else int):
        return False
    return 0 <= value <= _MOST
