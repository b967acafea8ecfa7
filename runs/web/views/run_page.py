"""The page of a run with its live updates and acts, and the way to it from a short id.

Cancelling and retrying a cleanup are safe to press twice and by two people at once.
"""

from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from runs.services import access, lifecycle
from runs.services.cleaning import request_cleanup
from runs.services.refusals import Refusal
from runs.services.transitions import CancelOutcome
from runs.web.presenting import specs
from runs.web.presenting.bundles import review_words
from runs.web.presenting.run_rows import run_row
from runs.web.views import run_panels
from runs.web.views.live import Live, answered, remembered

_CANCEL_WORDS = {
    CancelOutcome.CANCELLED: "Cancelled. It was still queued, so nothing had been created.",
    CancelOutcome.REQUESTED: "Cancelling. The worker stops and removes the run's containers, usually within 3 s.",
    CancelOutcome.ALREADY_REQUESTED: "The run is already being cancelled.",
    CancelOutcome.ENDED: "The run had already ended; nothing was cancelled.",
}
_ASKED = "Cleanup requested from {worker}. No trial runs again, and the verdict does not change."
_CLEAN = "Already clean; no cleanup was requested."


@require_safe
def run_page(request: HttpRequest, key: UUID) -> HttpResponse:
    run = access.run_or_404(request.user, key)
    last = run_panels.acts(run)
    state = f"{run.updated_at} {last[0].pk if last else ''}"  # changes with whatever a person does to a run
    live = remembered(request, lambda: run_panels.live(request, run, last), state=state)
    spec = specs.read(run.spec)
    private = access.may(request.user, access.READ_PRIVATE)
    context: dict[str, Any] = {
        "run": run,
        "now": timezone.now(),
        "live": live.placed(request),
        "pins": specs.pins(spec, review_words(run.bundle), private=private) if spec else [],
        "spec_sha256": f"sha256:{run.spec_sha256}",
    }
    return render(request, "runs/run.html", context)


@require_safe
def run_live(request: HttpRequest, key: UUID) -> HttpResponse:
    """The parts of the page that changed since the reader's; 304 for none, and no more asking once all is settled."""
    access.require(request.user, access.VIEW)

    def make() -> Live:
        run = access.run_or_404(request.user, key)
        return run_panels.live(request, run, run_panels.acts(run))

    return answered(request, remembered(request, make))


@require_POST
def cancel(request: HttpRequest, key: UUID) -> HttpResponse:
    run = access.run_or_404(request.user, key, access.CANCEL)
    outcome = lifecycle.request_cancel(run.pk, user=request.user)
    messages.info(request, _CANCEL_WORDS[outcome])
    return redirect("run", key=run.key)


@require_POST
def cleanup(request: HttpRequest, key: UUID) -> HttpResponse:
    run = access.run_or_404(request.user, key, access.CLEAN)
    try:
        asked = request_cleanup(user=request.user, run=run)
    except Refusal as error:
        messages.warning(request, error.sentence, "attention")
    else:
        messages.info(request, _ASKED.format(worker=run.worker.name) if asked else _CLEAN)
    return redirect("run", key=run.key)


@require_safe
def run_short(request: HttpRequest, beginning: str, rest: str = "") -> HttpResponse:
    """Redirect to the page below the one run whose id begins like this; of several offer a choice (status 300)."""
    found = access.runs_like_or_404(request.user, beginning)
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    choices = [(f"{reverse('run', args=[run.key])}{quote(rest)}{query}", run_row(run)) for run in found]
    if len(choices) == 1:
        return redirect(choices[0][0])
    context = {"beginning": beginning, "choices": choices, "more": len(found) == access.MOST_LIKE}
    return render(request, "runs/run_ambiguous.html", context, status=300)
