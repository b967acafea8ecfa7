"""The cleanup panel: a run's containers and networks, found = removed + left. Pure over rows."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from runs.models.states import Cleanup
from runs.web.presenting import cleanups

if TYPE_CHECKING:
    from runs.models import OwnedResource, Run

_REASONS = {
    "unknown": "Its removal could not be verified, and unknown is not success.",
    "foreign": "Its labels do not match this run, so it was left alone.",
    "failed": "It could not be removed.",
    "": "Not tried yet.",
}


@dataclass(frozen=True, slots=True)
class OwnedRow:
    """One container or network; ``full_id`` is empty for those who may not read private ids."""

    word: str
    full_id: str
    left: bool
    reason: str
    stage: str
    attempts: int
    row: "OwnedResource"


@dataclass(frozen=True, slots=True)
class Owned:
    """``found`` is always ``removed + left``. ``retryable`` when a retry may change something."""

    found: int
    removed: int
    left: int
    rows_left: list[OwnedRow] = field(default_factory=list)
    rows_gone: list[OwnedRow] = field(default_factory=list)
    final: bool = False
    retryable: bool = False
    pending: bool = False
    attempts: int = 0
    cleanup: cleanups.CleanupWords = cleanups.CLEANUPS[Cleanup.PENDING]
    statement: str = ""
    declared: str = ""


def owned(run: "Run", rows: "list[OwnedResource]", *, private: bool) -> Owned:
    """The panel of ``run``; ``private`` is whether the reader may see exact ids and details."""
    shown = [_owned_row(row, final=run.terminal, private=private) for row in rows if row.resource_id or row.left]
    left = [row for row in shown if row.left]
    gone = [row for row in shown if not row.left]
    return Owned(
        found=len(shown),
        removed=len(gone),
        left=len(left),
        rows_left=left,
        rows_gone=gone,
        final=run.terminal,
        retryable=run.terminal and run.cleanup == Cleanup.FAILED,
        pending=not run.terminal and not shown,
        attempts=run.cleanup_attempts,
        cleanup=cleanups.of(run.cleanup),
        statement=_statement(len(left)),
        declared=_declared(run, private=private),
    )


def _declared(run: "Run", *, private: bool) -> str:
    """Who says that nothing is left, where the program could not find it out; the reason is for operators."""
    if run.cleanup != Cleanup.DECLARED:
        return ""
    why = f" Their reason: {visible(run.cleanup_reason)}" if private else ""
    return f"{run.cleanup_declared_by_name} declared that nothing of this run is left. It was not verified.{why}"


def in_words(panel: Owned) -> str:
    """For the gate: ``9 of 9 gone`` or ``2 of 9 left``."""
    if not panel.final or not panel.found:
        return ""
    return f"{panel.left} of {panel.found} left" if panel.left else f"{panel.removed} of {panel.found} removed"


def _owned_row(row: "OwnedResource", *, final: bool, private: bool) -> OwnedRow:
    name = "Network" if row.kind == "network" or row.role == "network" else row.role.capitalize()
    trial = f", trial {row.trial}" if row.trial else ""
    reason = _REASONS.get(row.outcome, "It may still exist.") if row.left and final else ""
    if private and row.detail:
        reason = f"{reason} {visible(row.detail)}".strip()
    return OwnedRow(
        word=name + trial,
        full_id=row.resource_id if private else "",
        left=row.left,
        reason=reason,
        stage=row.stage,
        attempts=row.attempts,
        row=row,
    )


def _statement(left: int) -> str:
    if not left:
        return "Retry looks again for what this run created. It runs no trial again and changes no result."
    these = "this one" if left == 1 else f"these {words.spelled(left)}"
    return f"Retry removes {these} by exact id, after all labels match. It runs no trial again and changes no result."
