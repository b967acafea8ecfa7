"""What if a worker host never comes back? An operator declares it lost; its runs end as what they are."""

from django.db import transaction
from django.utils import timezone

from runs import access, audit, lifecycle
from runs.access import AnyUser
from runs.lifecycle import Failure
from runs.models import ACTIVE_STATES, AuditKind, Bucket, Cleanup, Run, RunState, Verdict, Worker

LOST_CODE = "worker_runtime.host_lost"


def declare_host_lost(*, user: AnyUser, worker: Worker) -> list[Run]:
    """End the active runs of ``worker`` as interrupted with a failed cleanup, until it returns and
    reconciles.

    Finished trials keep their results. Audited; repeating it ends nothing twice. Raises ``PermissionDenied``.
    """
    person = access.require(user, access.DECLARE_HOST_LOST)
    with transaction.atomic():
        hit = Worker.objects.filter(pk=worker.pk, lost_declared_at__isnull=True).update(
            lost_declared_at=timezone.now(), lost_declared_by_name=audit.name_of(person)
        )
        active = list(Run.objects.filter(worker=worker, state__in=ACTIVE_STATES))
        ended = [run for run in active if _end(run)]
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
