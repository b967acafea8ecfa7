"""The table of models: each one's last runs in order, and its rates over graded trials. Pure over rows."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING

from benchsite.lib import words
from runs.web.presenting import status_marks

if TYPE_CHECKING:
    from runs.models import Run

LAST = 20


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model at one endpoint: ``runs`` oldest first; ``passed`` is empty when nothing was evaluated."""

    model: str
    endpoint: str
    runs: list["Run"]
    passed: str
    evaluated: str
    typical: str
    last: datetime
    aloud: str


def model_rows(newest_first: "Iterable[Run]") -> list[ModelRow]:
    """Rows by most recent run; at most ``LAST`` runs each."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in newest_first:
        group = groups[run.endpoint.model, run.endpoint.name]
        if len(group) < LAST:
            group.append(run)
    return [_row(model, endpoint, runs) for (model, endpoint), runs in groups.items()]


def _row(model: str, endpoint: str, runs: "list[Run]") -> ModelRow:
    ended = [run for run in runs if run.terminal]
    evaluated = sum(run.count_evaluated for run in ended)
    passed = sum(run.count_passed for run in ended)
    requested = sum(run.count_requested for run in ended)
    lengths = [
        seconds
        for run in ended
        if run.count_evaluated == run.count_requested
        and (seconds := words.between(run.claimed_at, run.ended_at)) is not None
    ]
    kinds = [status_marks.of_run(run).kind for run in runs]
    named = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(reversed(kinds))]
    return ModelRow(
        model=model,
        endpoint=endpoint,
        runs=runs[::-1],
        passed=f"{passed} of {evaluated}" if evaluated else "",
        evaluated=f"{evaluated} of {requested}" if requested else "",
        typical=words.duration(median(lengths)) if lengths else "",
        last=runs[0].created_at,
        aloud=f"Last {words.counted(len(runs), 'run')}: {', '.join(named)}",
    )
