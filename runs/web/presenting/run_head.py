"""Head, cancel panel and audit rows of a run's page. Pure over rows."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from runs.documents.run_spec import RunSpec
from runs.models.states import RunState, Stage
from runs.web.presenting.owned import Owned

if TYPE_CHECKING:
    from runs.models import AuditEntry, Run


@dataclass(frozen=True, slots=True)
class Cancel:
    """What pressing the button does; ``possible`` is false once there is nothing left to stop."""

    possible: bool
    asked: str
    statement: str
    stops: list[str]
    keeps: list[str]


_DID = {
    "preview": "previewed the run",
    "start": "started the run",
    "cancel": "requested cancellation",
    "cleanup": "requested a cleanup retry",
    "download": "downloaded",
    "quarantine": "changed its quarantine:",
    "legal_hold": "changed its legal hold:",
    "expire": "removed expired evidence",
    "host_lost": "declared the host lost",
}
_OF_THE_RUN = ("preview", "start")  # their subject is the run's profile, which the page's head names


def head(run: "Run", spec: RunSpec | None) -> dict[str, str]:
    """What the head says beside the row: how long the run took, its limit, and how much of its profile it covers."""
    took = words.between(run.claimed_at, run.ended_at)
    return {
        "took": "" if took is None else words.duration(took),
        "most": "" if spec is None else words.duration(spec.limits.run_s),
        "narrowed": spec.coverage if spec is not None and spec.narrowed else "",
    }


def cancel(run: "Run", panel: Owned) -> Cancel:
    """The cancel panel for the state that the run is in."""
    asked = ""
    if run.cancel_requested_at:
        asked = f"{run.cancel_requested_by_name} requested it at {run.cancel_requested_at:%H:%M:%S} UTC."
    if run.terminal:
        when = f" It ended at {run.ended_at:%H:%M:%S} UTC." if run.ended_at else ""
        return Cancel(False, asked, f"The run has ended; there is nothing to cancel.{when}", [], [])
    if asked:
        gone = f"{panel.removed} of {panel.found} resources removed so far." if panel.found else ""
        return Cancel(False, asked, gone or "The run is being cancelled.", [], [])
    graded = run.count_evaluated
    keeps = (
        [f"the result of {words.counted(graded, 'trial')} and all evidence so far"]
        if graded
        else ["all evidence so far"]
    )
    rest = run.count_requested - graded - run.count_error - run.count_cancelled
    if rest:
        count = "counts" if rest == 1 else "count"
        keeps.append(f"{words.counted(rest, 'trial')} {count} as cancelled, not as failed")
    return Cancel(True, "", "", _stops(run, panel), [*keeps, "nothing is restarted"])


def _stops(run: "Run", panel: Owned) -> list[str]:
    if run.state == RunState.QUEUED:
        return ["nothing runs yet: the run is removed from the queue and never starts"]
    stops = ["the harness and its process group"] if run.stage == Stage.TRIAL else []
    names = Counter(thing.word.lower() for thing in panel.rows_left)
    stops += [f"the {name}" if n == 1 else f"{words.spelled(n)} {name}s" for name, n in names.items()]
    return stops or ["what the worker has created so far"]


def audit_words(entry: "AuditEntry") -> str:
    """What somebody did, as the end of a sentence that begins with their name."""
    did = _DID.get(entry.kind, entry.get_kind_display().lower())
    return f"{did} {'' if entry.kind in _OF_THE_RUN else visible(entry.subject)}".strip()
