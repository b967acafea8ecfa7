"""The overview: what needs attention, what runs now, results by model, recent runs, workers."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from benchsite.lib import words
from runs.models import ACTIVE_STATES, GONE, BundleStatus, Cleanup, Run, RunState, TaskBundle, Worker
from runs.outcomes.buckets import Verdict
from runs.services import access
from runs.web import charts
from runs.web.presenting import attention_notes, models_table, specs, status_marks
from runs.web.presenting.banner import counts_of, is_stale
from runs.web.presenting.run_rows import run_row
from runs.web.presenting.workers import worker_row
from runs.web.views.live import Live, answered, part, quantised, remembered
from runs.web.views.run_list import addresses, listed
from runs.web.views.workers import busy_workers

# Whole documents of what a run refers to; its own spec is read.
_UNSHOWN = ("profile__document", "profile__source", "endpoint__record", "worker__report")
_NOTES = 6
_RECENT = 8
_NEXT = 3
_FOR_MODELS = 200
_EVERY_S = 5
_LEAK_SHOWN = timedelta(days=7)  # nothing can take a leak back, so its note ends by itself


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    if not access.may(request.user, access.VIEW):
        return render(request, "runs/no_role.html")
    context: dict[str, Any] = {
        "now": timezone.now(),
        "live": _live(request).placed(request),
        "may_start": access.may(request.user, access.START),
    }
    return render(request, "runs/overview.html", context)


@require_safe
def overview_live(request: HttpRequest) -> HttpResponse:
    """The parts of the overview that changed since the reader's: 304 while the reader has all of them."""
    access.require(request.user, access.VIEW)
    return answered(request, remembered(request, lambda: _live(request)))


def _live(request: HttpRequest) -> Live:
    """Everything on the overview but its head, so that no part of a page that says "updated" is older than another."""
    # The latest runs and the last ones of each model, newest first: of many runs of one model only those it shows.
    latest = Run.objects.values_list("pk", "endpoint__model", "endpoint__name")[:_FOR_MODELS]
    of_model: Counter[tuple[str, str]] = Counter()
    chosen = []
    for place, (pk, model, endpoint) in enumerate(latest):
        of_model[model, endpoint] += 1
        if place < _RECENT or of_model[model, endpoint] <= models_table.LAST:
            chosen.append(pk)
    workers, runs = busy_workers(), list(listed().filter(pk__in=chosen))
    contexts = {
        "now": _present(request, workers),
        "models": {"models": [(row, history(row)) for row in models_table.model_rows(runs)]},
        "recent": {"recent": [run_row(run) for run in runs[:_RECENT]]},
        "workers": {"workers": [worker_row(worker, timezone.now()) for worker in workers]},
    }
    parts = [
        part(name, render_to_string(f"runs/overview.html#{name}", context, request))
        for name, context in contexts.items()
    ]
    return Live(tuple(parts), address=reverse("overview_live"), every_s=_EVERY_S)


def _present(request: HttpRequest, workers: list[Worker]) -> dict[str, Any]:
    """What needs somebody and what runs now."""
    ended = Count("trials", filter=Q(trials__bucket=None, trials__stage="ended"))
    found = Run.objects.filter(state__in=ACTIVE_STATES).select_related("profile", "endpoint", "worker")
    active = list(found.defer(*_UNSHOWN).annotate(unjudged=ended))
    return {
        "notes": _notes(active, workers),
        "running": [_now(run) for run in active],
        "queued": sum(worker.waiting for worker in workers),  # type: ignore[attr-defined]
        "next": [run_row(run) for run in listed().filter(state=RunState.QUEUED).order_by("created_at", "id")[:_NEXT]],
        "may_start": access.may(request.user, access.START),
    }


def history(row: models_table.ModelRow) -> SafeString:
    """The run-over-run picture of one model."""
    beats, address = [], addresses()
    for run in row.runs:
        mark = status_marks.of_run(run)
        rate = f"{run.count_passed} of {run.count_evaluated} passed"
        title = f"{run.short}, {run.created_at:%-d %b %H:%M}: {mark.word}, {rate}"
        beats.append(charts.Beat(mark.kind, address(run.key), title))
    return charts.history(beats, row.aloud)


def _notes(active: Sequence[Run], workers: list[Worker]) -> list[attention_notes.Note]:
    now = timezone.now()
    notes = [attention_notes.run_silent(run, now) for run in active if is_stale(run, now)]
    unclean = (
        Run.objects.filter(cleanup=Cleanup.FAILED)
        .select_related("worker")
        .annotate(left=Count("resources", filter=~Q(resources__outcome__in=GONE)))
        .only("id", "cleanup_attempts", "worker__name", "created_at")
    )
    found = list(unclean[:_NOTES])
    notes += [attention_notes.cleanup_failed(run, run.left) for run in found]
    if len(found) == _NOTES and (more := Run.objects.filter(cleanup=Cleanup.FAILED).count() - _NOTES):
        notes.append(attention_notes.more_cleanups_failed(more))
    leaks = Run.objects.filter(verdict=Verdict.ERROR, created_at__gte=now - _LEAK_SHOWN)
    leaks = leaks.filter(artifacts__state="quarantined").only("id", "created_at").distinct()
    notes += [attention_notes.quarantined(run) for run in leaks[:_NOTES]]
    notes += [attention_notes.worker_stopped(worker, now, worker.waiting) for worker in workers if not worker.alive]  # type: ignore[attr-defined]
    drafts = TaskBundle.objects.filter(status=BundleStatus.CERTIFIED).defer("manifest", "certification")
    notes += [attention_notes.bundle_to_review(bundle) for bundle in drafts[:_NOTES]]
    return notes


def _now(run: Run) -> dict[str, Any]:
    """One run that is being executed, with how far it is."""
    counts = counts_of(run, run.unjudged)  # type: ignore[attr-defined]
    done = counts.requested - counts.open
    spec = specs.read(run.spec)
    used = words.between(run.claimed_at, quantised(timezone.now())) or 0.0
    most = spec.limits.run_s if spec else None
    return {
        "run": run,
        "mark": status_marks.of_run(run),
        "trials": f"{done} of {counts.requested}",
        "trials_meter": charts.meter(done / counts.requested if counts.requested else 0, "now"),
        "time": f"{words.duration(used)} of {words.duration(most)}",
        "time_meter": charts.meter(used / most if most else 0, "now"),
        "rate": f"{counts.passed} of {counts.evaluated}" if counts.evaluated else "",
        "stage": f"Task {run.stage_trial} of {counts.requested}" if run.stage_trial else run.get_stage_display(),
    }
