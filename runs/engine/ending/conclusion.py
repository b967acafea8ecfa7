"""The end of every run, always in one order: fence, stop, keep logs and ledger, ingest, remove, verify, classify,
final state.

The same function ends a run that went well, that failed, that was cancelled, and one whose worker was lost: it
needs nothing but the run's directory and its row. Evidence is kept before anything is removed.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFailed

from benchsite.lib import logs
from benchsite.lib.canonical import sha256
from benchsite.lib.database import retry_database
from benchsite.lib.problems import DocumentError
from runs.containers import Deadline, EngineError, engine_call
from runs.documents.credentials import why_not_searched
from runs.documents.ledger import read_ledger
from runs.documents.run_spec import load_spec
from runs.engine.ending.cleanup import CleanupResult, FencedRun, close, remove_all
from runs.engine.ending.interrupted_logs import keep_interrupted_logs
from runs.engine.ending.judge import Judged, the_judge
from runs.engine.host.credentials import CredentialError, read_credential
from runs.engine.host.folder import FactsDamaged, RunFolder
from runs.engine.host.same_engine import connect_same
from runs.engine.network.gateway import RunGateway, keep_ledger
from runs.engine.network.transcript import keep_transcript
from runs.models import LEGAL_ENDINGS, Cleanup, LogLine, Run, RunState, Stage
from runs.outcomes.buckets import Bucket, Verdict
from runs.ownership import Journal, JournalDocument, JournalError, utc_now
from runs.services import endpoint_usage, lifecycle, runlog
from runs.services.transitions import Failure, ResourceState

log = logging.getLogger(__name__)

# For keeping logs and ledger; the removal has a deadline of its own.
KEEPING_S = 30.0

_FOLDER_LOST = (
    "The run's folder or its journal is gone, and with it the record of what the run owns, so nothing was removed. "
    "Look for containers and networks with the label benchsite.run={run}, and remove them by hand."
)


@dataclass
class Secrets:
    """The secrets that a run knew, for scrubbing; and why it failed, when not even its folder could say so.

    ``unresolved`` names, in words and with the reason, those that the evidence is not searched for.
    """

    values: list[str] = field(default_factory=list, repr=False)
    unresolved: list[str] = field(default_factory=list)
    failure: dict[str, Any] | None = None

    def add(self, *values: str | None) -> None:
        """Know these too; from now on no line of this process's log holds one."""
        given = [value for value in values if value]
        self.values += given
        logs.hide(*given)

    def add_credential(self, value: str | None, folder: RunFolder) -> None:
        """Know the endpoint's credential, unless it cannot be told from the run's own words."""
        if value is not None and (reason := why_not_searched(value, *folder.documents())):
            self.unresolved.append(f"the endpoint's credential ({reason})")
        else:
            self.add(value)


def conclude(
    run_id: str, *, secrets: Secrets | None = None, gateway: RunGateway | None = None, interrupted: bool = False
) -> None:
    """End the active run ``run_id`` once. ``interrupted`` says that its worker was lost (recovery).

    Safe to repeat after a crash at any point: what was done before is found done. Raises nothing of the
    engine's or the journal's; those become a failed cleanup.
    """
    secrets = secrets or secrets_of_a_lost_run(run_id)
    folder = RunFolder.of(settings.DATA, run_id)
    journal = Journal(folder.path)
    try:
        lifecycle.enter_stage(run_id, Stage.INGEST)
    except DatabaseFailed:
        # Nobody supervises it any more, so nothing goes on; once there is a database again, recovery concludes it.
        close(journal, "no database")
        _keep_logs_and_ledger(folder, journal, gateway)
        raise
    if not (folder.path / "journal.json").exists() or (not folder.facts.exists() and _recorded_nothing(journal)):
        _finish_without_folder(run_id, secrets.failure, interrupted=interrupted)
        return
    closed = close(journal, "interrupted" if interrupted else "ended")
    gateway_end = _keep_logs_and_ledger(folder, journal, gateway)
    run = retry_database(Run.objects.filter(pk=run_id).get)
    _record_usage(run, folder)
    if run.terminal:
        # It was ended elsewhere meanwhile, and that end stands: here only what is owned goes away.
        clean_and_mirror(run_id, journal, closed)
        return
    judge = the_judge()
    try:
        _close_facts(run_id, folder, interrupted=interrupted, gateway_end=gateway_end)
        note_unresolved(run_id, folder, secrets)
        judge.keep(run, folder.path, secrets=secrets.values)
    except Exception:
        # Recovery tries again from the folder, which has everything; what is owned does not wait for that.
        clean_and_mirror(run_id, journal, closed)
        raise
    lifecycle.enter_stage(run_id, Stage.CLEANUP)
    cleanup = Cleanup(clean_and_mirror(run_id, journal, closed).state)
    judged = judge.judge(run, folder.path, cleanup=cleanup, secrets=secrets.values)
    _finish(run, judged, cleanup, interrupted=interrupted)


def secrets_of_a_lost_run(run_id: str) -> Secrets:
    """What can be known again of its secrets: the credential. Its trials' tokens ended with its gateway."""
    lost = "the trials' tokens, which opened nothing but the run's own gateway (the worker was lost)"
    secrets = Secrets(unresolved=[lost])
    try:
        stored = retry_database(Run.objects.values_list("spec", flat=True).filter(pk=run_id).get)
        credential = read_credential(load_spec(stored.encode()).content.endpoint.credential)
        secrets.add_credential(credential, RunFolder.of(settings.DATA, run_id))
    except (CredentialError, DocumentError) as error:
        log.warning("run %s: its credential cannot be looked for in its evidence: %s", run_id, type(error).__name__)
        code = error.code if isinstance(error, CredentialError) else "spec unreadable"
        secrets.unresolved.append(f"the endpoint's credential ({code})")
    return secrets


def note_unresolved(run_id: str, folder: RunFolder, secrets: Secrets) -> None:
    """Say in the run's record, which is evidence itself, and in its log what its evidence cannot be scrubbed of.

    Repeatable. Raises OSError.
    """
    if not secrets.unresolved:
        return
    with suppress(FileNotFoundError, FactsDamaged):
        if folder.read_facts().get("unscrubbed") != secrets.unresolved:
            folder.update_facts(unscrubbed=secrets.unresolved)
    text = f"The evidence could not be searched for {' and '.join(secrets.unresolved)}"
    if not LogLine.objects.filter(run_id=run_id, text=text).exists():
        runlog.append_log(run_id, [runlog.Line(source="engine", text=text)])


def _recorded_nothing(journal: Journal) -> bool:
    """A run that died before its record was written owns nothing; one that lost its record may."""
    try:
        document = journal.read()
    except JournalError:
        return False
    return not document.resources and not document.processes


def clean_and_mirror(run_id: str, journal: Journal, closed: FencedRun) -> CleanupResult:
    """Remove all that the run owns, verify it, and show the journal's entries in the database."""
    engine = partial(connect_same, journal.directory, settings.DOCKER_TIMEOUT_S)
    result = remove_all(engine, journal, closed=closed, data=settings.DATA)
    try:
        lifecycle.mirror_journal(run_id, resource_states(journal.read()))
    except JournalError:
        log.exception("run %s: its journal cannot be read", run_id)
    return result


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


def _keep_logs_and_ledger(folder: RunFolder, journal: Journal, gateway: RunGateway | None) -> dict[str, Any]:
    """Keep what only running containers hold: an interrupted trial's logs and the end of the ledger.

    Returns what the run's record says of the gateway's end. `closed` is false when the engine did not give them or
    nobody saw the gateway end within its bound, and `died` is set when it had ended before: then the ledger may lack
    its end and nobody tampered with it.
    """
    died, ended = None, True
    deadline = Deadline(KEEPING_S)
    try:
        api = connect_same(journal.directory, settings.DOCKER_TIMEOUT_S, deadline)
        keep_interrupted_logs(api, journal, folder, deadline)
        if gateway is not None:
            end = gateway.close(api, deadline)
            died, ended = end.died, end.ended
            if end.problem:
                log.warning("the gateway did not end cleanly: %s", end.problem)
        elif (recorded := folder.read_facts().get("gateway")) is not None:
            keep_transcript(api, recorded["container_id"], folder.trials, deadline)
            keep_ledger(api, recorded["container_id"], folder.ledger, deadline)
        with engine_call("ping", deadline):
            return {"closed": bool(api.ping()) and ended, "died": died}
    except (EngineError, JournalError, FactsDamaged, OSError) as error:
        # Nothing is lost by going on: what is missing is judged as missing, and the removal has its own result.
        log.warning("not all logs of a run could be kept: %s", error)
        return {"closed": False, "died": died}


def _record_usage(run: Run, folder: RunFolder) -> None:
    """What the run used of its endpoint counts for its budgets, whatever becomes of the run."""
    with suppress(DocumentError, FileNotFoundError):
        endpoint = load_spec(run.spec.encode()).content.endpoint
        endpoint_usage.record(run.key, endpoint.name, read_ledger(folder.ledger.read_bytes()), endpoint.prices)


def _close_facts(run_id: str, folder: RunFolder, *, interrupted: bool, gateway_end: dict[str, Any]) -> None:
    try:
        facts = folder.read_facts()
    except (FileNotFoundError, FactsDamaged) as error:
        # It stays as it is: the checks of the run say that its record cannot be read. The run has to end all the same.
        log.warning("run %s: its own record cannot be read: %s", run_id, type(error).__name__)
        return
    asked = lifecycle.cancel_requested_at(run_id)
    changes: dict[str, Any] = {
        "ended_at": facts.get("ended_at") or utc_now(),
        "interrupted": facts.get("interrupted") or interrupted,
        # As it is kept from here on: whoever exchanges it later has to change this too.
        "ledger_sha256": sha256(folder.ledger.read_bytes()) if folder.ledger.exists() else None,
    }
    if asked is not None and facts.get("cancel_requested_at") is None:
        changes["cancel_requested_at"] = asked.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if facts.get("gateway") is not None and not interrupted:
        changes["gateway"] = {**facts["gateway"], **gateway_end}
    folder.update_facts(**changes)


def _finish(run: Run, judged: Judged, cleanup: Cleanup, *, interrupted: bool) -> None:
    lines = [f"Trial {number}: {code}" for number, code in enumerate(judged.codes, 1)]
    lines.append(f"Verdict: {judged.verdict.label}; cleanup: {cleanup.label}")
    lifecycle.finish(
        run.key,
        state=_state(judged, interrupted=interrupted),
        verdict=judged.verdict,
        cleanup=cleanup,
        failure=judged.failure,
        final_log_lines=[runlog.Line(source="engine", text=text) for text in lines],
    )


def _state(judged: Judged, *, interrupted: bool) -> RunState:
    if judged.verdict is Verdict.CANCELLED:
        return RunState.CANCELLED
    state = RunState.FAILED if judged.failure else RunState.FINISHED
    if interrupted or judged.interrupted:
        state = RunState.INTERRUPTED
    # What went wrong after every trial was graded cut nothing short: such a run is finished, also with a missed floor.
    return state if judged.verdict in LEGAL_ENDINGS[state] else RunState.FINISHED


def _finish_without_folder(run_id: str, failure: dict[str, Any] | None, *, interrupted: bool) -> None:
    """A run that never got as far as its folder owns nothing; one whose folder was lost may still own something."""
    lost = Run.objects.filter(pk=run_id, resources__isnull=False).exists()
    cleanup = Cleanup.FAILED if lost else Cleanup.CLEAN
    if lost:
        runlog.append_log(run_id, [runlog.Line(source="engine", text=_FOLDER_LOST.format(run=run_id))])
    cancelled = lifecycle.cancel_requested_at(run_id) is not None
    if cancelled:
        lifecycle.close_trials(
            run_id, bucket=Bucket.CANCELLED, failure_class="cancelled", failure_code="cancelled.requested"
        )
        state, verdict = RunState.CANCELLED, Verdict.CANCELLED
    else:
        suffix = "interrupted" if interrupted or lost else "not_started"
        lifecycle.close_trials(
            run_id, bucket=Bucket.ERROR, failure_class="worker_runtime", failure_code=f"worker_runtime.{suffix}"
        )
        state, verdict = (RunState.INTERRUPTED if interrupted else RunState.FAILED), Verdict.ERROR
    why = (
        None
        if failure is None
        else Failure(
            stage=failure["stage"], failure_class=failure["class"], code=failure["code"], detail=failure["detail"]
        )
    )
    lifecycle.enter_stage(run_id, Stage.CLEANUP)
    lifecycle.finish(run_id, state=state, verdict=verdict, cleanup=cleanup, failure=why)
