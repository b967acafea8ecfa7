"""Values and errors of state transitions, used by ``runs.services.lifecycle``."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from runs.outcomes.buckets import Bucket


class IllegalTransition(Exception):
    """The run's row does not allow this. ``code`` is stable, ``sentence`` for people, ``detail`` private."""

    code = "run.illegal_move"
    sentence = "The run cannot do that in its present state."

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"{self.sentence} {detail}".strip())
        self.detail = detail


class NoSuchRun(IllegalTransition):
    code = "run.unknown"
    sentence = "There is no run with this id."


class HostBusy(IllegalTransition):
    code = "run.host_busy"
    sentence = "Another run is being executed by this worker or host; this one stays queued."


class NotActive(IllegalTransition):
    code = "run.not_active"
    sentence = "The run is not being executed any more; nothing about it may change now."


class IllegalEnding(IllegalTransition):
    code = "run.illegal_ending"
    sentence = "This state, verdict, cleanup and these trials do not go together."


class NoSuchTrial(IllegalTransition):
    code = "trial.unknown"
    sentence = "The run has no such trial."


class CancelOutcome(StrEnum):
    """What a request to cancel came to. Each of them is a fine end of pressing the button."""

    CANCELLED = "cancelled"  # it was queued, so it is over now
    REQUESTED = "requested"  # its worker sees the flag within a second
    ALREADY_REQUESTED = "already_requested"
    ENDED = "ended"  # it had ended before


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """What the classifier made of one trial (fields as in ``Trial``; ``None`` is "not recorded")."""

    bucket: Bucket
    failure_class: str = ""
    failure_code: str = ""
    reward: int | None = None
    trial_uuid: uuid.UUID | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    timings: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_units: int | None = None
    cost_currency: str = ""
    cost_basis: str = ""
    badges: list[str] = field(default_factory=list)
    result: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a run as a whole could not be carried out; ``detail`` is private."""

    stage: str
    failure_class: str
    code: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class ResourceState:
    """One entry of the journal as it is mirrored: see ``OwnedResource``."""

    nonce: str
    kind: str
    role: str
    stage: str
    trial: int | None = None
    resource_id: str = ""
    outcome: str = ""
    detail: str = ""
    attempts: int = 0
