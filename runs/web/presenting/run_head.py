"""What stands in the head of a run's page, and what does cancelling it do? Pure over rows."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from runs.models.states import RunState, Stage
from runs.web.presenting import specs
from runs.web.presenting.owned import Owned

if TYPE_CHECKING:
    from runs.models import AuditEntry, Run


@dataclass(frozen=True, slots=True)
class Head:
    """``since`` is set while the run's clock ticks; ``took`` once it is over or before it began."""

    key: str
    short: str
    profile: str
    who: str
    created: datetime
    since: datetime | None
    took: str
    most: str
    worker: str
    model: str
    endpoint: str
    ended: datetime | None
    live: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """What pressing the button does; ``possible`` is false once there is nothing left to stop."""

    possible: bool
    asked: str
    statement: str
    stops: list[str]
    keeps: list[str]


@dataclass(frozen=True, slots=True)
class AuditRow:
    at: datetime
    who: str
    did: str


_DID = {
    "preview": "made the preview",
    "start": "confirmed and started it",
    "cancel": "asked to cancel it",
    "cleanup": "retried the cleanup",
    "download": "downloaded",
    "quarantine": "changed its quarantine:",
    "legal_hold": "changed its legal hold:",
    "expire": "removed expired evidence",
    "host_lost": "declared its host lost",
}


def head(run: "Run", spec: dict[str, Any]) -> Head:
    took = words.between(run.claimed_at, run.ended_at)
    most = specs.run_limit_s(spec)
    return Head(
        key=run.key,
        short=run.key[:8],
        profile=run.profile.name,
        who=run.created_by_name or "unknown",
        created=run.created_at,
        since=run.claimed_at if run.active else None,
        took="" if took is None else words.duration(took),
        most="" if most is None else words.duration(most),
        worker=run.worker.name,
        model=run.endpoint.model,
        endpoint=run.endpoint.name,
        ended=run.ended_at,
        live=not run.terminal,
    )


def cancel(run: "Run", panel: Owned) -> Cancel:
    """The cancel panel for the state that the run is in."""
    asked = ""
    if run.cancel_requested_at:
        asked = f"{run.cancel_requested_by_name} asked at {run.cancel_requested_at:%H:%M:%S} UTC."
    if run.terminal:
        when = f" It ended at {run.ended_at:%H:%M:%S} UTC." if run.ended_at else ""
        return Cancel(False, asked, f"Nothing is left to stop.{when}", [], [])
    if asked:
        gone = f"{panel.removed} of {panel.found} resources are gone so far." if panel.found else ""
        return Cancel(False, asked, f"{gone} Pressing again would change nothing.".strip(), [], [])
    return Cancel(True, "", "", _stops(run, panel), _keeps(run))


def _stops(run: "Run", panel: Owned) -> list[str]:
    if run.state == RunState.QUEUED:
        return ["nothing runs yet: the run leaves the queue and never starts"]
    stops = ["the harness and its whole process group"] if run.stage == Stage.TRIAL else []
    names = Counter(thing.word.lower() for thing in panel.things_left)
    stops += [f"the {name}" if n == 1 else f"{words.spelled(n)} {name}s" for name, n in names.items()]
    return stops or ["what the worker is preparing"]


def _keeps(run: "Run") -> list[str]:
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
    return [*keeps, "nothing is started again"]


def audit_row(entry: "AuditEntry") -> AuditRow:
    did = _DID.get(entry.kind, entry.get_kind_display().lower())
    return AuditRow(entry.at, entry.actor_name, f"{did} {visible(entry.subject)}".strip())
