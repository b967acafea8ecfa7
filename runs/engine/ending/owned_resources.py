"""A journal's entries as the rows that pages show of what a run owns."""

from collections.abc import Iterator

from runs.ownership import JournalDocument
from runs.services.lifecycle import ResourceState


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
