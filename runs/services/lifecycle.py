"""Every change of a run's state, by compare-and-set; no row lock outlives a function.

A function returns whether its one update hit, or raises a typed ``IllegalTransition`` when the caller's idea of the
run is wrong. Whoever comes second in a race changes nothing. Nothing here talks to Docker, Redis or files.
"""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from benchsite.lib.database import retrying_database
from runs.models import (
    ACTIVE_STATES,
    LEGAL_ENDINGS,
    OVER,
    STATE_OF_STAGE,
    TERMINAL_STATES,
    AuditKind,
    Cleanup,
    OwnedResource,
    Run,
    RunState,
    Stage,
    StageMark,
    Trial,
    Worker,
)
from runs.outcomes.buckets import EVALUATED, Bucket, Verdict
from runs.ownership import ProcessIdentity
from runs.services import audit
from runs.services.access import AnyUser
from runs.services.runlog import Line, append_log
from runs.services.transitions import (
    CancelOutcome,
    Failure,
    HostBusy,
    IllegalEnding,
    IllegalTransition,
    NoSuchRun,
    NoSuchTrial,
    NotActive,
    ResourceState,
    TrialEnd,
)

type RunId = uuid.UUID | str
_ORDER = list(STATE_OF_STAGE)


@retrying_database
def claim(run_id: RunId, *, worker: str, identity: ProcessIdentity, host: str) -> bool:
    """Move ``queued`` → ``preparing`` for the process ``identity`` of worker ``worker`` on ``host``.

    False when the run is not queued (any more) or not this worker's: exit quietly. ``HostBusy`` is
    raised when the worker or the host executes another run; the row stays queued and the worker's timer
    enqueues it again.
    """
    now = timezone.now()
    lease = {
        "lease_host": host,
        "lease_pid": identity.pid,
        "lease_start_ticks": identity.start_ticks,
        "lease_boot_id": identity.boot_id,
    }
    # No join: an update over a join compares in a subquery, which PostgreSQL does not look at again after
    # waiting.
    mine = Worker.objects.filter(name=worker).values("pk")
    queued = Run.objects.filter(pk=_pk(run_id), state=RunState.QUEUED, worker_id__in=mine)
    try:
        with transaction.atomic():
            hit = queued.update(
                state=RunState.PREPARING,
                stage=Stage.PREFLIGHT,
                claimed_at=now,
                heartbeat_at=now,
                updated_at=now,
                **lease,
            )
            if hit:
                StageMark.objects.create(run_id=_pk(run_id), stage=Stage.PREFLIGHT, at=now)
    except IntegrityError as error:
        raise HostBusy(str(error)) from error
    return bool(hit)


@retrying_database
def heartbeat(run_id: RunId) -> bool:
    """Say that the run's process lives. False when the run is not active any more: stop at once."""
    return bool(_active(run_id).update(heartbeat_at=timezone.now()))


@retrying_database
def cancel_requested_at(run_id: RunId) -> datetime | None:
    """When a cancellation was asked for; ``None`` when it was not. The supervisor asks some ten times a second."""
    return Run.objects.filter(pk=_pk(run_id)).values_list("cancel_requested_at", flat=True).first()


@retrying_database
def enter_stage(run_id: RunId, stage: Stage, *, trial: int | None = None) -> bool:
    """Enter ``stage`` (with its trial's ordinal), and the state that belongs to it; stages never go back.

    False when the run is already at or past it, or is not active. A trial's stage is entered once per trial.
    """
    if stage not in STATE_OF_STAGE:
        raise IllegalTransition(f"{stage} is not entered by itself")
    earlier = Q(stage__in=_ORDER[: _ORDER.index(stage)])
    if stage is Stage.TRIAL:
        earlier |= Q(stage=Stage.TRIAL, stage_trial__lt=trial or 0)
    now = timezone.now()
    with transaction.atomic():
        hit = (
            _active(run_id)
            .filter(earlier)
            .update(state=STATE_OF_STAGE[stage], stage=stage, stage_trial=trial, heartbeat_at=now, updated_at=now)
        )
        if hit:
            StageMark.objects.create(run_id=_pk(run_id), stage=stage, trial=trial, at=now)
    return bool(hit)


@retrying_database
def request_cancel(run_id: RunId, *, user: AnyUser | None) -> CancelOutcome:
    """Ask for a run's end; safe to repeat. A queued run is cancelled at once, an active one is flagged.

    Only the first request is recorded and audited. Permissions are the caller's business (``access.CANCEL``).
    """
    asked = {
        "cancel_requested_at": timezone.now(),
        "cancel_requested_by_id": None if user is None else user.pk,
        "cancel_requested_by_name": audit.name_of(user),
    }
    with transaction.atomic():
        if _cancel_queued(run_id, asked):
            outcome = CancelOutcome.CANCELLED
        elif _active(run_id).filter(cancel_requested_at__isnull=True).update(updated_at=timezone.now(), **asked):
            outcome = CancelOutcome.REQUESTED
        else:
            state = Run.objects.filter(pk=_pk(run_id)).values_list("state", flat=True).first()
            if state is None:
                raise NoSuchRun(str(run_id))
            return CancelOutcome.ENDED if state in TERMINAL_STATES else CancelOutcome.ALREADY_REQUESTED
        audit.record(AuditKind.CANCEL, user=user, run_id=_pk(run_id), detail={"outcome": outcome.value})
    return outcome


@retrying_database
def start_trial(run_id: RunId, ordinal: int, *, stage: str = "setup", trial_uuid: uuid.UUID | None = None) -> bool:
    """Show what a trial is doing: ``stage`` is ``setup``, ``agent`` or ``verifier``. False once it ended."""
    open_trial = Trial.objects.filter(run_id=_pk(run_id), ordinal=ordinal, bucket__isnull=True)
    hit = open_trial.update(stage=stage)
    open_trial.filter(started_at__isnull=True).update(started_at=timezone.now())
    if trial_uuid is not None:
        open_trial.filter(trial_uuid__isnull=True).update(trial_uuid=trial_uuid)
    return bool(hit)


@retrying_database
def trial_over(run_id: RunId, ordinal: int) -> bool:
    """Show that nothing of a trial runs any more; what it amounts to is written at the run's end. False if it is."""
    now = timezone.now()
    open_trial = Trial.objects.filter(run_id=_pk(run_id), ordinal=ordinal, bucket__isnull=True)
    return bool(open_trial.filter(started_at__lte=now).update(stage="ended", ended_at=now))


@retrying_database
def record_trial(run_id: RunId, ordinal: int, end: TrialEnd) -> bool:
    """Write what trial ``ordinal`` amounts to, once, and count it. False when it had been written before.

    Raises ``NotActive`` when the run ended or was never claimed, ``NoSuchTrial`` for an unknown ordinal.
    """
    trial = Trial.objects.filter(run_id=_pk(run_id), ordinal=ordinal)
    values = {name: getattr(end, name) for name in TrialEnd.__dataclass_fields__}
    for name in ("trial_uuid", "started_at"):
        if values[name] is None:
            del values[name]  # what was seen live stays
    with transaction.atomic():
        if not _active(run_id).update(updated_at=timezone.now()):
            raise NotActive(str(run_id))
        hit = trial.filter(bucket__isnull=True).update(stage="", **values)
        if hit:
            _active(run_id).update(**_increment(end.bucket))
        elif not trial.exists():
            raise NoSuchTrial(str(ordinal))
    return bool(hit)


@retrying_database
def close_trials(run_id: RunId, *, bucket: Bucket, failure_class: str = "", failure_code: str = "") -> int:
    """Give every trial without a bucket this one (cancelled, or an error); returns how many there were."""
    if bucket in EVALUATED:
        raise IllegalEnding("a trial is evaluated one by one")
    with transaction.atomic():
        if not _active(run_id).update(updated_at=timezone.now()):
            raise NotActive(str(run_id))
        count = Trial.objects.filter(run_id=_pk(run_id), bucket__isnull=True).update(
            bucket=bucket, failure_class=failure_class, failure_code=failure_code, stage=""
        )
        _active(run_id).update(**_increment(bucket, count))
    return count


@retrying_database
def mirror_journal(run_id: RunId, entries: Iterable[ResourceState]) -> int:
    """Make the rows of owned resources equal to the journal's entries; also after the run's end."""
    rows = [
        OwnedResource(
            run_id=_pk(run_id), nonce=entry.nonce, kind=entry.kind, role=entry.role, trial=entry.trial,
            resource_id=entry.resource_id, stage=entry.stage, outcome=entry.outcome,
            detail=entry.detail[:500].replace("\0", ""), attempts=entry.attempts, updated_at=timezone.now(),
        )
        for entry in entries
    ]  # fmt: skip
    OwnedResource.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["run", "nonce"],
        update_fields=["resource_id", "stage", "outcome", "detail", "attempts", "updated_at"],
    )
    return len(rows)


@retrying_database
def finish(
    run_id: RunId,
    *,
    state: RunState,
    verdict: Verdict,
    cleanup: Cleanup,
    failure: Failure | None = None,
    final_log_lines: Sequence[Line] = (),
) -> bool:
    """End an active run, exactly once. Counts are rebuilt from its trials. False when it had ended before.

    ``final_log_lines`` enter its log in the same transaction: whoever sees that the run has ended reads no further.

    ``state`` and ``verdict`` must be a pair of ``LEGAL_ENDINGS``; ``passed`` needs every trial evaluated
    and a clean cleanup; ``cancelled`` needs a request. Every trial must have its bucket (see
    ``close_trials``): raises ``IllegalEnding`` otherwise, and ``NotActive`` when the run was never claimed.
    """
    if verdict not in LEGAL_ENDINGS.get(state, ()):
        raise IllegalEnding(f"{state} with {verdict}")
    now = timezone.now()
    values: dict[str, Any] = {"state": state, "stage": Stage.ENDED, "verdict": verdict, "ended_at": now}
    values |= {"stage_trial": None, "updated_at": now} | _cleanup_values(cleanup, now) | _failure_values(failure)
    try:
        with transaction.atomic():
            hit = _active(run_id).update(updated_at=now)  # from here on nobody else counts trials
            if hit:
                _active(run_id).update(**values, **_counted(run_id))
                StageMark.objects.create(run_id=_pk(run_id), stage=Stage.ENDED, at=now)
                append_log(run_id, final_log_lines)
    except IntegrityError as error:
        raise IllegalEnding(str(error)) from error
    if not hit and not Run.objects.filter(pk=_pk(run_id), state__in=TERMINAL_STATES).exists():
        raise NotActive(str(run_id))
    return bool(hit)


@retrying_database
def cleanup_changed(run_id: RunId, *, cleanup: Cleanup) -> bool:
    """Record another attempt to clean up after a run that has ended; never touches the verdict.

    A run that is clean, or that a person declared resolved, stays so (False). Only ``clean`` and ``failed`` are
    results of an attempt.
    """
    if cleanup not in (Cleanup.CLEAN, Cleanup.FAILED):
        raise IllegalTransition(f"{cleanup} is not a result of a cleanup")
    now = timezone.now()
    ended = Run.objects.filter(pk=_pk(run_id), state__in=TERMINAL_STATES).exclude(cleanup__in=OVER)
    return bool(ended.update(updated_at=now, **_cleanup_values(cleanup, now)))


@retrying_database
def declare_resolved(run_id: RunId, *, user: AnyUser, reason: str) -> bool:
    """Record that a person says that nothing of an ended run is left, where no attempt can find it out. Audited.

    False when the cleanup had not failed. Never touches verdict, counts or owned resources.
    """
    now, name = timezone.now(), audit.name_of(user)
    failed = Run.objects.filter(pk=_pk(run_id), state__in=TERMINAL_STATES, cleanup=Cleanup.FAILED)
    with transaction.atomic():
        hit = failed.update(
            cleanup=Cleanup.DECLARED,
            cleanup_at=now,
            cleanup_declared_by_name=name,
            cleanup_reason=reason,
            updated_at=now,
        )
        if hit:
            audit.record(AuditKind.CLEANUP_DECLARED, user=user, run_id=_pk(run_id), detail={"reason": reason})
    return bool(hit)


def _pk(run_id: RunId) -> uuid.UUID:
    if isinstance(run_id, uuid.UUID):
        return run_id
    try:
        return uuid.UUID(run_id)
    except ValueError:
        raise NoSuchRun(run_id) from None


def _active(run_id: RunId) -> Any:
    return Run.objects.filter(pk=_pk(run_id), state__in=ACTIVE_STATES)


def _cancel_queued(run_id: RunId, asked: dict[str, Any]) -> bool:
    now = asked["cancel_requested_at"]
    hit = Run.objects.filter(pk=_pk(run_id), state=RunState.QUEUED).update(
        state=RunState.CANCELLED,
        stage=Stage.ENDED,
        verdict=Verdict.CANCELLED,
        cleanup=Cleanup.CLEAN,  # nothing was ever created for it
        cleanup_at=now,
        ended_at=now,
        updated_at=now,
        count_cancelled=F("count_requested"),
        **asked,
    )
    if hit:
        Trial.objects.filter(run_id=_pk(run_id), bucket__isnull=True).update(bucket=Bucket.CANCELLED)
        StageMark.objects.create(run_id=_pk(run_id), stage=Stage.ENDED, at=now)
    return bool(hit)


def _increment(bucket: Bucket, by: int = 1) -> dict[str, Any]:
    changed = {f"count_{bucket.value}": F(f"count_{bucket.value}") + by}
    if bucket in EVALUATED:
        changed["count_evaluated"] = F("count_evaluated") + by
    return changed


def _counted(run_id: RunId) -> dict[str, int]:
    def of(*buckets: Bucket) -> Count:
        return Count("pk", filter=Q(bucket__in=buckets))

    return Trial.objects.filter(run_id=_pk(run_id)).aggregate(
        count_requested=Count("pk"),
        count_evaluated=of(*EVALUATED),
        count_passed=of(Bucket.PASSED),
        count_failed=of(Bucket.FAILED),
        count_error=of(Bucket.ERROR),
        count_cancelled=of(Bucket.CANCELLED),
    )


def _cleanup_values(cleanup: Cleanup, now: datetime) -> dict[str, Any]:
    if cleanup is Cleanup.PENDING:
        return {"cleanup": cleanup}
    return {"cleanup": cleanup, "cleanup_at": now, "cleanup_attempts": F("cleanup_attempts") + 1}


def _failure_values(failure: Failure | None) -> dict[str, Any]:
    if failure is None:
        return {}
    return {
        "failure_stage": failure.stage[:16],
        "failure_class": failure.failure_class[:32],
        "failure_code": failure.code[:64],
        "failure_detail": failure.detail[:4000].replace("\0", ""),
    }
