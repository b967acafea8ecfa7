"""Which parts of a run's page change while it runs? Each is a fragment with a tag of its own content.

A panel polls itself and says which content it has; the answer is 304 while that is still true, and the panel of
an ended run does not poll.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import Case, QuerySet, TextField, Value, When
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from runs import access, lines, svg
from runs.models import Bucket, LogLine, OwnedResource, Run, Stage, Trial
from runs.presenting import banner as banners
from runs.presenting import counts as sums
from runs.presenting import log as logs
from runs.presenting import owned as ownership
from runs.presenting import run_head, specs, trials
from runs.views.live import Panel, quantised, wrapped

TRIALS_SHOWN = 50
_LOG_KEPT = 1000
_EVERY_S = 2


def panel(request: HttpRequest, run: Run, name: str) -> Panel:
    """The panel ``name`` of ``run`` for this reader; ``KeyError`` for a name that is none."""
    context = _CONTEXTS[name](request, run)
    alone = "HX-Request" in request.headers
    inner = render_to_string(f"runs/run.html#{name}", {**context, "run_key": run.key, "oob": alone}, request)
    address = reverse("run_panel", args=[run.key, name])
    if request.GET:
        address += f"?{request.GET.urlencode()}"
    return wrapped(inner, name=name, address=address, every_s=0 if run.terminal else _EVERY_S)


def _verdict(request: HttpRequest, run: Run) -> dict[str, Any]:
    spec, counts = specs.read(run.spec), banners.counts_of(run, _unjudged(run))
    rows = list(run.resources.all())
    owned = ownership.owned(run, rows, private=False)
    current = _current_trial(run)
    situation = banners.Situation(
        counts=counts,
        floor=specs.floor(spec),
        left=owned.left,
        worker=run.worker.name,
        current_task=current.task_name if current else "",
        current_stage=current.stage if current else "",
    )
    return {
        "banner": banners.banner(run, situation),
        "cells": sums.strip(counts),
        "share": svg.share(sums.shares(counts), sums.aloud(counts)),
        "rates": sums.rates(counts, situation.floor),
        "gates": sums.gates(counts, situation.floor, _integrity(run), run.cleanup, ownership.in_words(owned)),
        "stale": banners.is_stale(run, timezone.now()),
        "heartbeat": run.heartbeat_at,
        "worker": run.worker.name,
        "head": run_head.head(run, spec),
    }


def _current_trial(run: Run) -> Trial | None:
    if run.stage != Stage.TRIAL or run.stage_trial is None or run.terminal:
        return None
    return run.trials.only("task_name", "stage").filter(ordinal=run.stage_trial).first()


def _unjudged(run: Run) -> int:
    return run.trials.filter(bucket=None, stage="ended").count() if run.active else 0


def _integrity(run: Run) -> bool | None:
    if not run.terminal or not run.count_requested:
        return None
    if run.failure_class == "integrity":
        return False
    # A trial that was evaluated has no failure class (a constraint of the table): most runs need not be searched.
    unevaluated = run.count_evaluated < run.count_requested
    if unevaluated and run.trials.filter(failure_class="integrity").exists():
        return False
    return not run.artifacts.filter(state="quarantined").exists()


def _trials(request: HttpRequest, run: Run) -> dict[str, Any]:
    first = _first_trial(request, run)
    window = _window(run, first)
    max_steps = specs.get(specs.read(run.spec), "controls.max_steps")
    now = quantised(timezone.now())
    rows = [trials.row(trial, run, max_steps=max_steps, now=now) for trial in window]
    longest = _longest(run, rows, now)
    clock = svg.Clock.over(longest)
    stem = reverse("trial", args=[run.key, 0]).removesuffix("0/")
    drawn = [(row, f"{stem}{row.ordinal}/", svg.stages(clock, row.stretches, row.mark.kind, row.aloud)) for row in rows]
    return {
        "rows": lines.trials(drawn),
        "axis": svg.axis(clock),
        "shown": f"{first:,} to {first + len(rows) - 1:,} of {run.count_requested:,}" if rows else "",
        "earlier": first - TRIALS_SHOWN if first > 1 else 0,
        "later": first + TRIALS_SHOWN if first + TRIALS_SHOWN <= run.count_requested else 0,
    }


def _window(run: Run, first: int) -> "QuerySet[Trial]":
    """The trials of a window; only an error's result is read, for its sentence, and the rest stays where it is."""
    found = run.trials.filter(ordinal__gte=first, ordinal__lt=first + TRIALS_SHOWN).defer("result").order_by("ordinal")
    of_errors = Case(When(bucket=Bucket.ERROR, then="result"), default=Value(""), output_field=TextField())
    return found.annotate(error_result=of_errors)


def _first_trial(request: HttpRequest, run: Run) -> int:
    """The first ordinal of the window that ``?from=`` asks for; windows lie at 1, 51, 101 …"""
    asked = request.GET.get("from", "")
    wanted = int(asked) if asked.isdecimal() and len(asked) < 9 else 1
    last = max(run.count_requested, 1)
    return (min(max(wanted, 1), last) - 1) // TRIALS_SHOWN * TRIALS_SHOWN + 1


def _longest(run: Run, rows: list[trials.Row], now: datetime) -> float:
    ends = [part.start + part.seconds for row in rows for part in row.stretches]
    if run.claimed_at:
        ends.append(((run.ended_at or now) - run.claimed_at).total_seconds())
    return max(ends, default=60.0)


def _log(request: HttpRequest, run: Run) -> dict[str, Any]:
    if not access.may(request.user, access.READ_PRIVATE):
        return {"allowed": False}
    everything = request.GET.get("log") == "all"
    count = _LOG_KEPT if everything else logs.SHOWN
    newest = list(LogLine.objects.filter(run=run).order_by("-seq")[:count])
    log = logs.log(run, newest, everything=everything)
    return {
        "allowed": True,
        "log": log,
        "lines": lines.log(log.rows),
        "live": not run.terminal,
        "ended": run.ended_at,
    }


def _owned(request: HttpRequest, run: Run) -> dict[str, Any]:
    private = access.may(request.user, access.READ_PRIVATE)
    rows: list[OwnedResource] = list(run.resources.all())
    owned = ownership.owned(run, rows, private=private)
    return {
        "owned": owned,
        "cancel": run_head.cancel(run, owned),
        "may_cancel": access.may(request.user, access.CANCEL),
        "may_clean": access.may(request.user, access.CLEAN),
        "worker": run.worker.name,
        "short": run.key[:8],
    }


_CONTEXTS: dict[str, Callable[[HttpRequest, Run], dict[str, Any]]] = {
    "verdict": _verdict,
    "trials": _trials,
    "log": _log,
    "owned": _owned,
}
NAMES = tuple(_CONTEXTS)
