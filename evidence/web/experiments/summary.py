"""An experiment's numbers as finished words: the sum, rates of several attempts, errors, cost and time. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.experiments.reading import Line
from evidence.imports.outcomes import Trust
from evidence.models import Experiment
from evidence.statistics.attempts import Tally, cost_per_solved, tokens_per_solved
from evidence.statistics.rates import passes_of_k
from evidence.web.experiments.words import money, per_solved, percent
from runs.web.presenting.counts import Cell, Share

_MOST_OF_K = 10


def sum_cells(experiment: Experiment, found: Sequence[Line]) -> list[Cell]:
    """The cells that add up to what was requested, with their signs."""
    counted = Counter(line.outcome for line in found)
    passed = counted["reported_passed"] + counted["observed_passed"]
    failed = counted["reported_failed"] + counted["observed_failed"]
    requested = max(experiment.requested, len(found))
    whose = "here" if experiment.trust != Trust.REPORTED else "elsewhere"
    cells = [
        Cell("", "", "Requested", requested, "trials that were to run"),
        Cell("", "=", "Graded", passed + failed, f"graded {whose}, and the grade counts", graded=True),
        Cell("hollow-passed", "(", "Passed", passed, f"reward at least {experiment.pass_threshold:g}", graded=True),
        Cell("hollow-failed", "+", "Failed", failed, f"reward below {experiment.pass_threshold:g}", graded=True),
        Cell("error", ") +", "Errored", counted["errored"], "not graded, the reason is named"),
    ]
    if experiment.trust == Trust.REPORTED:
        cells.append(Cell("unseen", "+", "Not reported", counted["not_reported"], "no result that can be read"))
    else:
        cells.append(Cell("cancelled", "+", "Cancelled", counted["cancelled"], "stopped before grading"))
    if counted[""]:
        cells.append(Cell("running rest", "+", "Not ended", counted[""], "begun, without an outcome so far"))
    if unknown := requested - len(found):
        cells.append(Cell("queued rest", "+", "Unknown", unknown, "requested, and nothing of it was handed in"))
    return cells


def shares(cells: Sequence[Cell]) -> list[Share]:
    """The bar of the sum; none when nothing was requested."""
    parts = [(cell.icon, cell.n) for cell in cells if cell.icon and cell.n]
    whole = sum(n for _kind, n in parts)
    edges = [100 * sum(n for _kind, n in parts[:index]) / whole for index in range(len(parts))] + [100.0]
    return [
        Share(kind, f"{edges[index]:.3f}%", f"{edges[index + 1] - edges[index]:.3f}%")
        for index, (kind, _n) in enumerate(parts)
    ]


def aloud(cells: Sequence[Cell]) -> str:
    return ", ".join(f"{cell.n:,} {cell.word.lower()}" for cell in cells if cell.n or not cell.icon)


@dataclass(frozen=True, slots=True)
class OfK:
    """pass@k and pass^k in words, and over which cases."""

    k: int
    any_of_k: str
    all_of_k: str
    cases: str


def of_k(found: Tally) -> list[OfK]:
    """For each k up to ten; nothing with one attempt a case, of which the pass rate says as much."""
    said = passes_of_k(found)
    if len(said) < 2:
        return []
    return [
        OfK(one.k, percent(one.any_of_k), percent(one.all_of_k), f"{one.cases:,} of {one.of_cases:,}")
        for one in said[:_MOST_OF_K]
    ]


def solved_costs(found: Tally) -> list[dict[str, str]]:
    """What a solved case cost in money and in tokens, each with what it is made of."""
    cost, tokens = cost_per_solved(found), tokens_per_solved(found)
    parts = (
        ("Cost", *per_solved(cost, money(cost.value))),
        ("Tokens", *per_solved(tokens, f"{tokens.value or 0:,.0f}")),
    )
    return [{"word": f"{word} per solved case", "value": value, "beside": beside} for word, value, beside in parts]


def errors(found: Sequence[Line]) -> list[dict[str, Any]]:
    """Exceptions by their type, most frequent first; those that voided no grade are named as such."""
    void = Counter(line.error_type or "no exception named" for line in found if line.outcome == "errored")
    kept = Counter(line.agent_error.partition(":")[0] for line in found if line.agent_error)
    rows = [(name, n, "Not graded", "error") for name, n in void.most_common()]
    rows += [(name, n, "The grade counts beside it", "") for name, n in kept.most_common()]
    return [{"name": visible(name), "n": n, "means": means, "tone": tone} for name, n, means, tone in rows]


def distributions(found: Sequence[Line]) -> list[dict[str, str]]:
    """Duration, cost and tokens over the trials that reported them; nothing else is counted as 0."""
    parts: list[tuple[str, list[float | int | None], Callable[[float], str]]] = [
        ("Duration", [line.duration_ms for line in found], lambda value: words.duration(value / 1000, exact=True)),
        ("Cost", [line.cost_usd for line in found], money),
        ("Input tokens", [line.input_tokens for line in found], lambda value: f"{value:,.0f}"),
        ("Output tokens", [line.output_tokens for line in found], lambda value: f"{value:,.0f}"),
    ]
    rows = []
    for word, given, said in parts:
        values = sorted(value for value in given if value is not None)
        row = {"word": word, "reported": f"{len(values):,} of {len(found):,}"}
        if values:
            row |= {
                "median": said(median(values)),
                "most": said(values[ceil(0.9 * len(values)) - 1]),
                "largest": said(values[-1]),
                "total": said(sum(values)),
            }
        rows.append(row)
    return rows
