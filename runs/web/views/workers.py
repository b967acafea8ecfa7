"""Pages of workers: list, detail, declaring a host lost, removal."""

from collections import Counter

from django.contrib import messages
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from benchsite.lib import words
from runs.models import ACTIVE_STATES, GONE, Run, RunState, Worker
from runs.services import access, lost_hosts
from runs.services.refusals import Refusal
from runs.services.workers import condition, removal_of, remove_worker, was_removed
from runs.web.presenting.run_rows import run_row
from runs.web.presenting.workers import effects, ending, worker_page, worker_row
from runs.web.views.run_list import listed

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
    found, now = access.worker_or_404(request.user, name), timezone.now()
    found.active_runs = found.runs.filter(state__in=ACTIVE_STATES).count()  # type: ignore[attr-defined]
    runs = [run_row(run) for run in listed().filter(worker=found)[:_RECENT]]
    context = {
        "worker": found,
        "mark": condition(found, now),
        "page": worker_page(found),
        "images": found.image_locks.filter(current=True),
        "harness": found.harness_locks.filter(current=True).first(),
        "runs": runs,
        "may_declare": _declarable(found) and access.may(request.user, access.DECLARE_HOST_LOST),
        "may_remove": not runs and not found.alive and access.may(request.user, access.REMOVE_WORKER),
    }
    return render(request, "runs/worker.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def lost(request: HttpRequest, name: str) -> HttpResponse:
    """Say what follows when the host is declared lost; by POST, do it."""
    found = access.worker_or_404(request.user, name, access.DECLARE_HOST_LOST)
    if request.method == "POST":
        again = found.lost_declared_at is not None
        try:
            ended = lost_hosts.declare_host_lost(user=request.user, worker=found)
        except Refusal as error:
            messages.warning(request, error.sentence, "attention")
        else:
            said = "was declared lost before" if again else "is declared lost"
            messages.info(request, f"{found.name} {said}; {words.counted(len(ended), 'run')} ended.")
        return redirect("worker", name=found.name)
    runs = _with_left(found)
    waiting = found.runs.filter(state=RunState.QUEUED).count()
    context = {
        "worker": found,
        "mark": condition(found, timezone.now()),
        "endings": [ending(run) for run in runs],
        **effects(runs, waiting),
        "possible": _declarable(found),
        "refusal": lost_hosts.StillServing.sentence if found.alive else "",
    }
    return render(request, "runs/worker_lost.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, name: str) -> HttpResponse:
    """Say what goes with a worker that was registered by mistake; by POST, remove it."""
    access.require(request.user, access.REMOVE_WORKER)
    try:
        found = access.worker_or_404(request.user, name)
    except Http404:  # looked for first: of two who remove it at once, the later one may find it gone at any moment
        if not was_removed(name):
            raise
        messages.info(request, f"{name} was removed before.")
        return redirect("workers")
    if request.method == "POST":
        try:
            removed = remove_worker(user=request.user, worker=found)
        except Refusal as error:
            messages.warning(request, error.sentence, "attention")
            return redirect("worker", name=found.name)
        messages.info(request, f"{found.name} {'is removed' if removed else 'was removed before'}.")
        return redirect("workers")
    context = {
        "worker": found,
        "mark": condition(found, timezone.now()),
        "removal": removal_of(found),
        "prepared": found.harness_locks.exists() or found.image_locks.exists(),
    }
    return render(request, "runs/worker_remove.html", context)


def _declarable(worker: Worker) -> bool:
    return worker.lost_declared_at is None and not worker.alive


def _with_left(worker: Worker) -> list[Run]:
    """The runs that would end, each with ``left``: how many of its things were not seen removed."""
    gone = Q(resources__outcome__in=GONE)
    keys = [run.pk for run in lost_hosts.active_runs(worker)]
    found = Run.objects.filter(pk__in=keys).select_related("profile", "endpoint")
    return list(found.annotate(left=Count("resources", filter=~gone)).order_by("created_at"))
