"""Is anything of this run still here, as far as this host can tell? Looked for before a person may declare that nothing
is; nothing is removed here.
"""

from django.conf import settings

from runs.containers import Engine, EngineError, connect, engine_call
from runs.engine.ending.recovery import retry_cleanup
from runs.engine.host.folder import RunFolder
from runs.engine.host.same_engine import CHANGED, require_same
from runs.models import Cleanup, Run
from runs.ownership import LABEL_RUN, Journal, JournalDocument, JournalError, Outcome, group_members
from runs.services.cleaning import NotDeclarable


def look_for_remains(run: Run) -> None:
    """Clean up once more, then look. Raises NotDeclarable when that came out clean, when something is found, when the
    journal still tells what is left and on this very engine, or when the engine does not answer."""
    if retry_cleanup(run.key) is Cleanup.CLEAN:
        raise NotDeclarable("A cleanup just now verified that nothing is left.", code="cleanup.verified")
    run.refresh_from_db()
    document = _journal(run)
    try:
        api = connect(settings.DOCKER_TIMEOUT_S)
        found, same = _found(api, run), _is_same(run, api)
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


def _journal(run: Run) -> JournalDocument | None:
    try:
        return Journal(RunFolder.of(settings.DATA, run.key).path).read()
    except JournalError:
        return None


def _found(api: Engine, run: Run) -> list[str]:
    """Whatever carries the run's label, in any state: everything that a run creates does (design 4)."""
    label = {"label": f"{LABEL_RUN}={run.key}"}
    with engine_call("list"):
        found = [*api.containers(all=True, filters=label), *api.networks(filters=label)]
    return sorted(str(each["Id"]) for each in found)


def _is_same(run: Run, api: Engine) -> bool:
    try:
        require_same(RunFolder.of(settings.DATA, run.key).path, api)
    except EngineError as error:
        if error.code == CHANGED:
            return False
        raise
    return True


def _is_recoverable(document: JournalDocument, *, same: bool) -> bool:
    """Whether a later cleanup could still find out: on the engine that the journal is about, or once the members of
    the run's process groups are gone."""
    # What carries other labels than the journal's is not ours to remove, so no cleanup ever gets further with it.
    unsettled = any(not each.settled and each.outcome is not Outcome.FOREIGN for each in document.resources)
    return (same and unsettled) or any(group_members(each.identity) for each in document.processes)
