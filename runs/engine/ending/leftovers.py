"""The search of this host for what a run left, before a person may declare that nothing is; removes nothing."""

from pathlib import Path

from django.conf import settings

from runs.containers import Deadline, EngineError, connect, engine_call
from runs.engine.ending.recovery import retry_cleanup
from runs.engine.host.folder import RunFolder
from runs.engine.host.same_engine import CHANGED, require_same
from runs.models import Cleanup, Run
from runs.ownership import LABEL_RUN, Journal, JournalDocument, JournalError, Outcome, group_members
from runs.services.cleaning import NotDeclarable


def require_nothing_left(run: Run) -> None:
    """Clean up once more, then look. Raises NotDeclarable when that came out clean, when something is found, when the
    journal still tells what is left and on this very engine, or when the engine does not answer."""
    if retry_cleanup(run.key) is Cleanup.CLEAN:
        raise NotDeclarable("A cleanup just now verified that nothing is left.", code="cleanup.verified")
    run.refresh_from_db()
    directory = RunFolder.of(settings.DATA, run.key).path
    try:
        document = Journal(directory).read()
    except JournalError:
        document = None
    try:
        found, same = _look(run, directory)
    except EngineError as error:
        sentence = f"This host cannot be looked at: {error.sentence}"
        raise NotDeclarable(sentence, code="cleanup.cannot_look", detail=error.detail) from error
    if found:
        raise NotDeclarable(
            f"{len(found)} of this run's containers and networks are still here: {', '.join(found)}. "
            "Remove exactly these by id, then declare again.",
            code="cleanup.still_there",
        )
    if document is not None and _is_recoverable(document, same=same):
        raise NotDeclarable(
            "The run's journal is whole and tells what is left on this engine. Remove the reason that `status` names, "
            "then run manage.py cleanup again.",
            code="cleanup.recoverable",
        )


def _look(run: Run, directory: Path) -> tuple[list[str], bool]:
    """Whatever carries the run's label, in any state, as everything does that a run creates; and whether this is the
    engine that the run used."""
    deadline = Deadline()
    api = connect(settings.DOCKER_TIMEOUT_S, deadline)
    label = {"label": f"{LABEL_RUN}={run.key}"}
    with engine_call("list containers", deadline):
        found = api.containers(all=True, filters=label)
    with engine_call("list networks", deadline):
        found += api.networks(filters=label)
    try:
        require_same(directory, api, deadline)
        same = True
    except EngineError as error:
        if error.code != CHANGED:
            raise
        same = False
    return sorted(str(each["Id"]) for each in found), same


def _is_recoverable(document: JournalDocument, *, same: bool) -> bool:
    """Whether a later cleanup could still find out: on the engine that the journal is about, or once the members of
    the run's process groups are gone."""
    # What carries other labels than the journal's is not ours to remove, so no cleanup ever gets further with it.
    unsettled = any(not each.settled and each.outcome is not Outcome.FOREIGN for each in document.resources)
    return (same and unsettled) or any(group_members(each.identity) for each in document.processes)
