"""Which workers are there, and what can each enforce?"""

from collections import Counter

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from runs import access, svg
from runs.models import ACTIVE_STATES, Run, RunState, Worker
from runs.presenting.run_rows import run_row
from runs.presenting.workers import state, worker_page, worker_row
from runs.views.run_list import listed

_RECENT = 10


@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    now = timezone.now()
    rows = [worker_row(worker, now) for worker in busy_workers()]
    return render(request, "runs/workers.html", {"workers": rows})


def busy_workers() -> list[Worker]:
    """All workers with ``waiting`` and ``active_runs``; looks only at runs that have not ended."""
    open_runs = Run.objects.filter(state__in=[RunState.QUEUED, *ACTIVE_STATES])
    counted = Counter(open_runs.values_list("worker_id", "state"))
    found = list(Worker.objects.all())
    for worker in found:
        worker.waiting = counted[worker.pk, RunState.QUEUED.value]  # type: ignore[attr-defined]
        worker.active_runs = sum(counted[worker.pk, state.value] for state in ACTIVE_STATES)  # type: ignore[attr-defined]
    return found


@require_safe
def worker(request: HttpRequest, name: str) -> HttpResponse:
    found = access.worker_or_404(request.user, name)
    found.active_runs = found.runs.filter(state__in=ACTIVE_STATES).count()  # type: ignore[attr-defined]
    runs = [(row, svg.strip(row.shares, row.aloud)) for row in map(run_row, listed().filter(worker=found)[:_RECENT])]
    context = {
        "worker": found,
        "mark": state(found),
        "page": worker_page(found),
        "images": found.image_locks.filter(current=True),
        "harness": found.harness_locks.filter(current=True).first(),
        "runs": runs,
    }
    return render(request, "runs/worker.html", context)
