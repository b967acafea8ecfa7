"""The effects of declaring a worker host lost, shown before it is done. Pure over rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.text import capfirst

from benchsite.lib import words
from runs.web.presenting import status_marks
from runs.web.presenting.banner import counts_of

if TYPE_CHECKING:
    from runs.models import Run


@dataclass(frozen=True, slots=True)
class Ending:
    """One run that would end. ``left`` counts what its record has not seen removed."""

    key: str
    short: str
    profile: str
    model: str
    stage: str
    mark: status_marks.Mark
    becomes: status_marks.Mark
    keeps: str
    left: int


@dataclass(frozen=True, slots=True)
class LostHost:
    """The confirm page: ``endings`` and what is done, kept and left unknown, in sentences."""

    endings: list[Ending]
    done: list[str]
    unknown: list[str]


def ending(run: "Run", left: int) -> Ending:
    counts = counts_of(run)
    graded = words.counted(counts.evaluated, "graded trial")
    return Ending(
        key=run.key,
        short=run.key[:8],
        profile=run.profile.name,
        model=run.endpoint.model,
        stage=run.get_stage_display(),
        mark=status_marks.of_run(run),
        becomes=status_marks.RESULTS["cancelled" if run.cancel_requested_at else "error"],
        keeps=f"{graded} of {counts.requested} kept",
        left=left,
    )


def lost_host(endings: list[Ending], waiting: int) -> LostHost:
    """``waiting`` is how many queued runs are bound to the worker."""
    left = sum(one.left for one in endings)
    done = [
        f"{capfirst(words.counted(len(endings), 'run'))} {'ends' if len(endings) == 1 else 'end'} now, "
        "and every trial that was not graded becomes an error (worker runtime)"
        if endings
        else "No run is being executed there, so none ends",
        "Previews of this worker are refused until it is back",
    ]
    if waiting:
        done.append(f"{capfirst(words.counted(waiting, 'queued run'))} keep waiting for it and can be cancelled")
    return LostHost(endings, done, _unknown(left) if endings else [])


def _unknown(left: int) -> list[str]:
    counted = words.counted(left, "container or network", "containers and networks")
    first = (
        f"Whether {counted} of these runs still exist: they cannot be removed from here"
        if left
        else "Whether anything of these runs still exists there: it cannot be looked for from here"
    )
    return [
        first,
        "Whether their processes still run, if the host is only cut off: their reports are no longer accepted",
        "Evidence that exists only on that host: it is stored when the worker starts again, which also cleans up",
    ]
