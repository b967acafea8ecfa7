"""The live panels of a run's page, each a fragment of the page's own template.

The page asks for all of them at once; that of an ended run asks no more, unless a retry of its cleanup is open.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import Case, Count, Max, Q, QuerySet, Sum, TextField, Value, When, prefetch_related_objects
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.pages import first_of_window
from runs.models import ACTIVE_STATES, OVER, AuditEntry, AuditKind, LogLine, Run, RunState, Stage, StageMark, Trial
from runs.outcomes.buckets import Bucket
from runs.services import access
from runs.web import charts, table_rows
from runs.web.presenting import banner as banners
from runs.web.presenting import counts as sums
from runs.web.presenting import owned as ownership
from runs.web.presenting import run_head, specs, trials
from runs.web.presenting.trials import Totals, totals_row
from runs.web.views.live import Live, part, quantised

TRIALS_SHOWN = 50
_LOG_KEPT = 1000
_LOG_SHOWN = 250
_ACTS_SHOWN = 12
_EVERY_S = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """What the parts of one answer are made of, each thing read once: the trials from ``first`` on, the last acts."""

    request: HttpRequest
    run: Run
    acts: list[AuditEntry]
    first: int
    trials: list[Trial]

    @property
    def whole(self) -> bool:
        """Whether these are all trials of the run."""
        return self.run.count_requested <= TRIALS_SHOWN

    def may(self, permission: str) -> bool:
        return access.may(self.request.user, permission)


def acts(run: Run) -> list[AuditEntry]:
    """The last acts on ``run``, newest first, and one more where there are more than are shown."""
    return list(AuditEntry.objects.filter(run_id=run.pk).defer("detail")[: _ACTS_SHOWN + 1])


def live(request: HttpRequest, run: Run, last: list[AuditEntry]) -> Live:
    """All parts of the page of ``run`` for this reader; ``last`` are its last acts."""
    prefetch_related_objects([run], "resources")  # two parts show them
    first = first_of_window(request.GET.get("from", ""), size=TRIALS_SHOWN, rows=run.count_requested)
    retried = _retry_asked_at(run, last)
    # The trials of a window; only an error's result is read, for its sentence, and the rest stays where it is.
    found = run.trials.filter(ordinal__gte=first, ordinal__lt=first + TRIALS_SHOWN).defer("result").order_by("ordinal")
    of_errors = Case(When(bucket=Bucket.ERROR, then="result"), default=Value(""), output_field=TextField())
    shown = Shown(request, run, last, first, list(found.annotate(error_result=of_errors)))
    always = {"run": run, "retried": retried}
    parts = tuple(
        part(name, render_to_string(f"runs/run.html#{name}", {**always, **context(shown)}, request))
        for name, context in _CONTEXTS.items()
    )
    address = reverse("run_live", args=[run.key])
    if request.GET:
        address += f"?{request.GET.urlencode()}"
    return Live(parts, address, _EVERY_S if not run.terminal or retried else 0)


def _retry_asked_at(run: Run, last: list[AuditEntry]) -> datetime | None:
    """When a cleanup was asked for that has not ended: after the last attempt, of a run whose cleanup is not over."""
    if not run.terminal or run.cleanup in OVER:
        return None
    asked = next((entry.at for entry in last if entry.kind == AuditKind.CLEANUP), None)
    if asked is None and len(last) > _ACTS_SHOWN:
        earlier = AuditEntry.objects.filter(run_id=run.pk, kind=AuditKind.CLEANUP)
        asked = earlier.values_list("at", flat=True).first()
    return asked if asked and (run.cleanup_at is None or asked > run.cleanup_at) else None


def _head(shown: Shown) -> dict[str, Any]:
    return {"head": run_head.head(shown.run, specs.read(shown.run.spec)), "may_start": shown.may(access.START)}


def _audit(shown: Shown) -> dict[str, Any]:
    if not shown.may(access.READ_PRIVATE):
        return {"audit": None}
    last = shown.acts[:_ACTS_SHOWN]
    return {
        "audit": [(entry, run_head.audit_words(entry)) for entry in reversed(last)],
        "more": len(shown.acts) > len(last),
    }


def _verdict(shown: Shown) -> dict[str, Any]:
    run = shown.run
    spec, counts = specs.read(run.spec), banners.counts_of(run, _unjudged(shown))
    owned = ownership.owned(run, list(run.resources.all()), private=False)
    current = _current_trial(shown)
    situation = banners.Situation(
        counts=counts,
        floor=spec.scoring.pass_rate_floor if spec else None,
        left=owned.left,
        worker=run.worker.name,
        waits_for=_waits_for(run),
        integrity=_integrity(shown),
        current_task=current.task_name if current else "",
        current_stage=current.stage if current else "",
    )
    return {
        "banner": banners.banner(run, situation),
        "cells": sums.strip(counts),
        "share": charts.share(sums.shares(counts), sums.aloud(counts)),
        "rates": sums.rates(counts, situation.floor),
        "gates": sums.gates(counts, situation.floor, situation.integrity, run.cleanup, ownership.in_words(owned)),
        "stale": banners.is_stale(run, timezone.now()),
    }


def _waits_for(run: Run) -> str:
    """Why a queued run has not begun, where that can be said; else nothing."""
    if run.state != RunState.QUEUED:
        return ""
    if not run.worker.alive:
        return "The worker is not running: start it there with manage.py worker."
    others = Run.objects.filter(worker=run.worker_id).exclude(pk=run.pk)
    before = others.filter(Q(state__in=ACTIVE_STATES) | Q(state=RunState.QUEUED, created_at__lt=run.created_at)).count()
    return f"{words.counted(before, 'run is', 'runs are')} ahead of this one." if before else ""


def _current_trial(shown: Shown) -> Trial | None:
    run = shown.run
    if run.stage != Stage.TRIAL or run.stage_trial is None or run.terminal:
        return None
    if shown.whole:
        return next((trial for trial in shown.trials if trial.ordinal == run.stage_trial), None)
    return run.trials.only("task_name", "stage").filter(ordinal=run.stage_trial).first()


def _unjudged(shown: Shown) -> int:
    if not shown.run.active:
        return 0
    if shown.whole:
        return sum(trial.bucket is None and trial.stage == "ended" for trial in shown.trials)
    return shown.run.trials.filter(bucket=None, stage="ended").count()


def _integrity(shown: Shown) -> bool | None:
    run = shown.run
    if not run.terminal or not run.count_requested or run.claimed_at is None:
        return None
    if run.failure_class == "integrity":
        return False
    # A trial that was evaluated has no failure class (a constraint of the table): most runs need not be searched.
    if run.count_evaluated < run.count_requested and _has_integrity_failure(shown):
        return False
    return not run.artifacts.filter(state="quarantined").exists()


def _has_integrity_failure(shown: Shown) -> bool:
    if shown.whole:
        return any(trial.failure_class == "integrity" for trial in shown.trials)
    return shown.run.trials.filter(failure_class="integrity").exists()


def _trials(shown: Shown) -> dict[str, Any]:
    run, first = shown.run, shown.first
    spec = specs.read(run.spec)
    max_steps = spec.controls.max_steps if spec else None
    now = quantised(timezone.now())
    rows = [trials.row(trial, run, max_steps=max_steps, now=now) for trial in shown.trials]
    longest = _longest(run, rows, now)
    clock = charts.Clock.over(longest)
    stem = reverse("trial", args=[run.key, 0]).removesuffix("0/")
    drawn = [
        (row, f"{stem}{row.ordinal}/", charts.stages(clock, row.stretches, row.mark.kind, row.aloud)) for row in rows
    ]
    # Sums over all trials of the run, whatever the window.
    found = _sums().filter(run=run)
    whole = totals_row(run, list(_marks().filter(run=run)), Totals(**found[0]) if found else Totals())
    around = charts.stages(clock, whole.stretches, whole.mark.kind if run.terminal else "", whole.aloud)
    return {
        "rows": table_rows.trials(drawn),
        "whole": table_rows.totals(whole, around),
        "axis": charts.axis(clock),
        "shown": f"{first:,} to {first + len(rows) - 1:,} of {run.count_requested:,}" if rows else "",
        "earlier": first - TRIALS_SHOWN if first > 1 else 0,
        "later": first + TRIALS_SHOWN if first + TRIALS_SHOWN <= run.count_requested else 0,
    }


@cache
def _marks() -> "QuerySet[StageMark, tuple[str, datetime]]":
    """Put together once, like ``_sums``: every page of a run asks it, and putting it together takes longer."""
    return StageMark.objects.exclude(stage=Stage.TRIAL, trial__gt=1).order_by("id").values_list("stage", "at")


@cache
def _sums() -> Any:
    summed = (
        Trial.objects.order_by()
        .values("run")
        .annotate(
            started=Count("started_at"),
            steps_of=Count("steps"),
            tokens_of=Count("pk", filter=Q(prompt_tokens__isnull=False) | Q(completion_tokens__isnull=False)),
            cost_of=Count("cost_units"),
            currencies=Count("cost_currency", filter=Q(cost_units__isnull=False), distinct=True),
            estimated=Count("pk", filter=Q(cost_basis="estimated")),
            # a sum takes its column's name, so it comes after whatever else looks at the column
            steps=Sum("steps"),
            prompt_tokens=Sum("prompt_tokens"),
            completion_tokens=Sum("completion_tokens"),
            cost_units=Sum("cost_units"),
            cost_currency=Max("cost_currency"),
        )
    )
    names = [field.name for field in fields(Totals)]
    return summed.values(*names)


def _longest(run: Run, rows: list[trials.Row], now: datetime) -> float:
    ends = [part.start + part.seconds for row in rows for part in row.stretches]
    if run.claimed_at:
        ends.append(((run.ended_at or now) - run.claimed_at).total_seconds())
    return max(ends, default=60.0)


def _log(shown: Shown) -> dict[str, Any]:
    """The newest lines that are kept; how many older ones were dropped for good, and how many are only not shown."""
    if not shown.may(access.READ_PRIVATE):
        return {"allowed": False}
    run, everything = shown.run, shown.request.GET.get("log") == "all"
    newest = LogLine.objects.filter(run=run).order_by("-seq")[: _LOG_KEPT if everything else _LOG_SHOWN]
    lines, kept = list(newest)[::-1], run.log_next - run.log_dropped
    return {
        "allowed": True,
        "lines": table_rows.log(lines),
        "dropped": run.log_dropped,
        "hidden": max(0, kept - len(lines)),
        "kept": kept,
    }


def _owned(shown: Shown) -> dict[str, Any]:
    run = shown.run
    owned = ownership.owned(run, list(run.resources.all()), private=shown.may(access.READ_PRIVATE))
    return {
        "owned": owned,
        "cancel": run_head.cancel(run, owned),
        "may_cancel": shown.may(access.CANCEL),
        "may_clean": shown.may(access.CLEAN),
    }


_CONTEXTS: dict[str, Callable[[Shown], dict[str, Any]]] = {
    "head": _head,
    "verdict": _verdict,
    "trials": _trials,
    "log": _log,
    "audit": _audit,
    "owned": _owned,
    "evidence": lambda _shown: {},  # the evidence app's tag finds what it shows
}
NAMES = tuple(_CONTEXTS)
