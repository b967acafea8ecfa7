"""Declares a worker host lost that never comes back, and ends its runs."""

from django.db import transaction
from django.utils import timezone

from runs.models import ACTIVE_STATES, AuditKind, Cleanup, Run, RunState, Worker
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import access, audit, lifecycle
from runs.services.access import AnyUser
from runs.services.refusals import Refusal
from runs.services.transitions import Failure

LOST_CODE = "worker_runtime.host_lost"


class StillServing(Refusal):
    """The worker's process is there; its runs can be cancelled and it can be stopped (exit code 3)."""

    code = "worker.still_serving"
    sentence = "This worker was heard from just now, so it is not lost. Cancel its run or stop the worker instead."


def active_runs(worker: Worker) -> list[Run]:
    """The runs that end when ``worker`` is declared lost. Queued ones do not: they wait for it."""
    related = Run.objects.filter(worker=worker, state__in=ACTIVE_STATES).select_related("profile", "endpoint")
    return list(related.order_by("created_at"))


def declare_host_lost(*, user: AnyUser, worker: Worker) -> list[Run]:
    """End the active runs of ``worker`` as interrupted with a failed cleanup, until it returns and reconciles.

    Finished trials keep their results. Audited; repeating it ends nothing twice. Raises ``PermissionDenied``,
    and ``StillServing`` for a worker with a recent heartbeat.
    """
    person = access.require(user, access.DECLARE_HOST_LOST)
    if Worker.objects.get(pk=worker.pk).alive:
        raise StillServing
    with transaction.atomic():
        hit = Worker.objects.filter(pk=worker.pk, lost_declared_at__isnull=True).update(
            lost_declared_at=timezone.now(), lost_declared_by_name=audit.name_of(person)
        )
        ended = [run for run in active_runs(worker) if _end(run)]
        if hit or ended:
            detail = {"runs": [run.key for run in ended]}
            audit.record(AuditKind.HOST_LOST, user=person, subject=worker.name, detail=detail)
    return ended


def back_in_service(name: str) -> bool:
    """The worker was started again: it reconciles what it left, and may be previewed again."""
    lost = Worker.objects.filter(name=name, lost_declared_at__isnull=False)
    return bool(lost.update(lost_declared_at=None, lost_declared_by_name=""))


def _end(run: Run) -> bool:
    cancelled = lifecycle.cancel_requested_at(run.pk) is not None
    if cancelled:
        lifecycle.close_trials(run.pk, bucket=Bucket.CANCELLED)
    else:
        lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="worker_runtime", failure_code=LOST_CODE)
    return lifecycle.finish(
        run.pk,
        state=RunState.CANCELLED if cancelled else RunState.INTERRUPTED,
        verdict=Verdict.CANCELLED if cancelled else Verdict.ERROR,
        cleanup=Cleanup.FAILED,
        failure=Failure(stage=run.stage, failure_class="worker_runtime", code=LOST_CODE),
    )
