"""One trial: a sentence, its proof, its stages and limits; what the agent and the verifier said beside it."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from runs.models import Trial
from runs.services import access
from runs.web import charts
from runs.web.presenting import trial_page as presenting
from runs.web.views.live import Live, answered, part, remembered

_EVERY_S = 5
_PARTS = ("head", "result", "evidence")


@require_safe
def trial_page(request: HttpRequest, key: UUID, ordinal: int) -> HttpResponse:
    trial = access.trial_or_404(request.user, key, ordinal)
    context = _context(request, trial)
    live = remembered(request, lambda: _live(request, trial, context), state=str(trial.run.updated_at))
    return render(request, "runs/trial.html", {**context, "now": timezone.now(), "live": live.placed(request)})


@require_safe
def trial_live(request: HttpRequest, key: UUID, ordinal: int) -> HttpResponse:
    """The parts of the page that changed since the reader's; 304 for none; none are asked for once the run ended."""
    access.require(request.user, access.VIEW)

    def make() -> Live:
        trial = access.trial_or_404(request.user, key, ordinal)
        return _live(request, trial, _context(request, trial))

    return answered(request, remembered(request, make))


def _live(request: HttpRequest, trial: Trial, context: dict[str, Any]) -> Live:
    parts = tuple(part(name, render_to_string(f"runs/trial.html#{name}", context, request)) for name in _PARTS)
    address = reverse("trial_live", args=[trial.run.key, trial.ordinal])
    return Live(parts, address, 0 if trial.run.terminal else _EVERY_S)


def _context(request: HttpRequest, trial: Trial) -> dict[str, Any]:
    run = trial.run
    page = presenting.trial_page(trial, run)
    return {
        "trial": trial,
        "run": run,
        "run_key": run.key,
        "page": page,
        "timeline": charts.timeline(page["stretches"], label=page["aloud"], limit=page["limit_line"]),
        "limits": [
            (row, "" if row.share is None else charts.meter(row.share, "hit" if row.reached else ""))
            for row in page["limits"]
        ],
        "around": _neighbours(trial),
        "private": access.may(request.user, access.READ_PRIVATE),
    }


def _neighbours(trial: Trial) -> dict[str, Trial]:
    """The trials before and after, by word."""
    near = trial.run.trials.filter(ordinal__in=[trial.ordinal - 1, trial.ordinal + 1])
    found = {row.ordinal: row for row in near.only("ordinal", "task_name")}
    words = {"Previous": trial.ordinal - 1, "Next": trial.ordinal + 1}
    return {word: found[ordinal] for word, ordinal in words.items() if ordinal in found}
