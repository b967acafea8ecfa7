"""What needs somebody, what runs now, how do the models do?"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from benchsite import words
from runs import access, svg
from runs.models import ACTIVE_STATES, BundleStatus, Cleanup, Run, TaskBundle, Worker
from runs.presenting import attention, marks, models_table, run_head, specs
from runs.presenting.banner import counts_of
from runs.presenting.run_rows import run_row
from runs.presenting.workers import worker_row
from runs.views.live import Live, answered, part, quantised, remembered
from runs.views.run_list import addresses, listed
from runs.views.workers import busy_workers

# Whole documents of what a run refers to; its own spec is read.
_UNSHOWN = ("profile__document", "profile__source", "endpoint__record", "worker__report")
_NOTES = 6
_RECENT = 8
_FOR_MODELS = 200
_EVERY_S = 5


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    if not access.may(request.user, access.VIEW):
        return render(request, "runs/no_role.html")
    now, workers = timezone.now(), busy_workers()
    runs = _shown()
    context: dict[str, Any] = {
        "now": now,
        "live": _live(request, workers).placed(request),
        "models": [(row, history(row)) for row in models_table.model_rows(runs)],
        "recent": [(row, svg.strip(row.shares, row.aloud)) for row in map(run_row, runs[:_RECENT])],
        "workers": [worker_row(worker, now) for worker in workers],
        "may_start": access.may(request.user, access.START),
    }
    return render(request, "runs/overview.html", context)


def _shown() -> list[Run]:
    """The latest runs and the last ones of each model, newest first: of many runs of one model only those it shows."""
    latest = Run.objects.values_list("pk", "endpoint__model", "endpoint__name")[:_FOR_MODELS]
    of_model: Counter[tuple[str, str]] = Counter()
    chosen = []
    for place, (pk, model, endpoint) in enumerate(latest):
        of_model[model, endpoint] += 1
        if place < _RECENT or of_model[model, endpoint] <= models_table.LAST:
            chosen.append(pk)
    return list(listed().filter(pk__in=chosen))


@require_safe
def overview_live(request: HttpRequest) -> HttpResponse:
    """What needs somebody and what runs now, alone: 304 while the reader has it already."""
    access.require(request.user, access.VIEW)
    return answered(request, remembered(request, lambda: _live(request, busy_workers())))


def _live(request: HttpRequest, workers: list[Worker]) -> Live:
    ended = Count("trials", filter=Q(trials__bucket=None, trials__stage="ended"))
    found = Run.objects.filter(state__in=ACTIVE_STATES).select_related("profile", "endpoint", "worker")
    active = list(found.defer(*_UNSHOWN).annotate(unjudged=ended))
    context = {
        "notes": _notes(active, workers),
        "running": [_now(run) for run in active],
        "queued": sum(worker.waiting for worker in workers),  # type: ignore[attr-defined]
        "may_start": access.may(request.user, access.START),
    }
    inner = render_to_string("runs/overview.html#live", context, request)
    return Live((part("now", inner),), address=reverse("overview_live"), every_s=_EVERY_S)


def history(row: models_table.ModelRow) -> SafeString:
    """The run-over-run picture of one model."""
    beats, address = [], addresses()
    for run in row.runs:
        mark = marks.of_run(run)
        rate = f"{run.count_passed} of {run.count_evaluated} evaluated passed"
        title = f"{run.key[:8]}, {run.created_at:%-d %b %H:%M}: {mark.word}, {rate}"
        beats.append(svg.Beat(mark.kind, address(run.key), title))
    return svg.history(beats, row.aloud)


def _notes(active: Sequence[Run], workers: list[Worker]) -> list[attention.Note]:
    now = timezone.now()
    notes = [attention.silent(run, now) for run in active if attention.is_silent(run, now)]
    unclean = (
        Run.objects.filter(cleanup=Cleanup.FAILED)
        .select_related("worker")
        .annotate(left=Count("resources", filter=~Q(resources__outcome__in=["removed", "absent"])))
        .only("id", "cleanup_attempts", "worker__name", "created_at")
    )
    notes += [attention.left_behind(run, run.left) for run in unclean[:_NOTES]]
    notes += [attention.unseen(worker, now, worker.waiting) for worker in workers if not worker.alive]  # type: ignore[attr-defined]
    drafts = TaskBundle.objects.filter(status=BundleStatus.CERTIFIED).defer("manifest", "certification")
    notes += [attention.to_review(bundle) for bundle in drafts[:_NOTES]]
    return notes


def _now(run: Run) -> dict[str, Any]:
    """One run that is being executed, with how far it is."""
    counts = counts_of(run, run.unjudged)  # type: ignore[attr-defined]
    done = counts.requested - counts.open
    spec = specs.read(run.spec)
    used = words.between(run.claimed_at, quantised(timezone.now())) or 0.0
    most = specs.run_limit_s(spec)
    return {
        "head": run_head.head(run, spec),
        "mark": marks.of_run(run),
        "trials": f"{done} of {counts.requested}",
        "trials_meter": svg.meter(done / counts.requested if counts.requested else 0, "now"),
        "time": f"{words.duration(used)} of {words.duration(most)}",
        "time_meter": svg.meter(used / most if most else 0, "now"),
        "rate": f"{counts.passed} of {counts.evaluated}" if counts.evaluated else "",
        "stage": run.get_stage_display(),
    }
