"""An endpoint's connection tests: one row for each worker's last one. Pure over rows."""

from dataclasses import dataclass
from datetime import datetime

from benchsite.lib import words
from runs.models import ConnectionOutcome, EndpointTest
from runs.web.presenting.check_rows import CheckRow, check_row

_NOT_MADE_IN_TIME = "The worker did not make it in time. Is it running, and is it carrying out a long run?"
_ICONS = {
    ConnectionOutcome.READY: ("held", ""),
    ConnectionOutcome.NOT_READY: ("blocked", "attention"),
    ConnectionOutcome.UNPROVED: ("attention", "attention"),
    ConnectionOutcome.NOT_MADE: ("attention", "attention"),
}


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """The last test from one worker. ``icon`` and ``tone`` go with ``word``; ``at``: when it ended, or was asked."""

    worker: str
    icon: str
    tone: str
    word: str
    by: str
    at: datetime
    took: str
    why: str
    checks: list[CheckRow]


def connection_row(test: EndpointTest) -> ConnectionRow:
    icon, tone, word, why = _state(test)
    return ConnectionRow(
        worker=test.worker.name,
        icon=icon,
        tone=tone,
        word=word,
        by=test.requested_by_name,
        at=test.ended_at or test.requested_at,
        took="" if test.seconds is None else words.duration(test.seconds),
        why=why,
        checks=[check_row(check) for check in test.checks],
    )


def _state(test: EndpointTest) -> tuple[str, str, str, str]:
    """Icon, tone, word and, for one that was not made, why."""
    if test.live:
        return "queued", "", test.get_state_display(), ""
    if not test.done:
        return "attention", "attention", ConnectionOutcome.NOT_MADE.label, _NOT_MADE_IN_TIME
    icon, tone = _ICONS[ConnectionOutcome(test.outcome)]
    return icon, tone, test.get_outcome_display(), test.failure
