"""Which workers are there, and what can each enforce?"""

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from runs import access, svg
from runs.models import ACTIVE_STATES, RunState, Worker
from runs.presenting.run_rows import run_row
from runs.presenting.workers import state, worker_page, worker_row
from runs.views.run_list import listed

_RECENT = 10


@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    now = timezone.now()
    found = Worker.objects.annotate(
        waiting=Count("runs", filter=Q(runs__state=RunState.QUEUED)),
        active_runs=Count("runs", filter=Q(runs__state__in=ACTIVE_STATES)),
    )
    return render(request, "runs/workers.html", {"workers": [worker_row(worker, now) for worker in found]})


@require_safe
def worker(request: HttpRequest, name: str) -> HttpResponse:
    found = access.worker_or_404(request.user, name)
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
