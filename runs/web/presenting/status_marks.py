"""Shape and word of each verdict, state and result, the same on every page."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runs.models.states import ACTIVE_STATES, RunState

if TYPE_CHECKING:
    from runs.models import Run, Trial


@dataclass(frozen=True, slots=True)
class Mark:
    """``kind`` names the shape and hue (also a CSS class), ``word`` is what is read."""

    kind: str
    word: str


RESULTS = {
    kind: Mark(kind, kind.capitalize())
    for kind in ("passed", "failed", "incomplete", "error", "cancelled", "running", "cancelling", "queued")
}
ENDED = Mark("queued", "Ended")


def of_run(run: "Run") -> Mark:
    """A run's verdict once there is one, else what it is doing."""
    if run.verdict:
        return RESULTS[run.verdict]
    if run.state in ACTIVE_STATES:
        return RESULTS["cancelling" if run.cancel_requested_at else "running"]
    if run.state == RunState.QUEUED:
        return RESULTS["queued"]
    return RESULTS["error"]


def of_trial(trial: "Trial", run: "Run") -> Mark:
    """A trial's bucket once it was classified, else whether it has started."""
    if trial.bucket:
        return RESULTS[trial.bucket]
    if trial.stage == "ended":
        return ENDED
    if trial.started_at and run.state in ACTIVE_STATES:
        return RESULTS["running"]
    return RESULTS["queued"]
