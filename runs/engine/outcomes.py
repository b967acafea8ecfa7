"""How do facts of a run become rows? The journal's entries and the classifier's judgements, in the rows' words."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from evidence.classify import Classification
from evidence.clocks import Interval
from evidence.facts import TrialFacts
from runs.lifecycle import ResourceState, TrialEnd
from runs.models import Bucket
from runs.ownership import JournalDocument

_PHASES = {"setup_s": ("environment", "setup"), "agent_s": ("agent",), "verifier_s": ("verifier",)}


def resource_states(document: JournalDocument) -> Iterator[ResourceState]:
    """One row for each intent of the journal, whatever became of it."""
    for resource in document.resources:
        yield ResourceState(
            nonce=resource.nonce,
            kind=resource.intent.kind,
            role=resource.intent.role.value,
            stage=resource.stage.value,
            trial=resource.intent.trial,
            resource_id=resource.resource_id or "",
            outcome="" if resource.outcome is None else resource.outcome.value,
            detail=resource.detail or "",
            attempts=resource.attempts,
        )


def trial_end(facts: TrialFacts, judgement: Classification) -> TrialEnd:
    """What the classifier made of one trial; what was not recorded stays None."""
    return TrialEnd(
        bucket=Bucket(judgement.bucket.value),
        failure_class=judgement.klass.value,
        failure_code="" if judgement.evaluated else judgement.code,
        reward=facts.reward.state.value_or_none,
        trial_uuid=_uuid(facts.trial_uuid),
        started_at=_time(facts.total.started_at),
        ended_at=_time(facts.total.ended_at) if not facts.total.inverted else None,
        timings=_timings(facts),
        steps=facts.endpoint.completions or None,
        prompt_tokens=facts.endpoint.prompt_tokens,
        completion_tokens=facts.endpoint.completion_tokens,
        badges=list(judgement.badges),
    )


def _timings(facts: TrialFacts) -> dict[str, Any]:
    timings: dict[str, Any] = {"clock": facts.total.clock}
    for key, phases in _PHASES.items():
        seconds = [facts.phases.get(phase, Interval()).seconds for phase in phases]
        known = [value for value in seconds if value is not None]
        if len(known) == len(seconds):
            timings[key] = round(sum(known), 3)
    if facts.total.seconds is not None:
        timings["total_s"] = round(facts.total.seconds, 3)
    return timings


def _uuid(text: str | None) -> uuid.UUID | None:
    try:
        return None if text is None else uuid.UUID(text)
    except ValueError:
        return None


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
