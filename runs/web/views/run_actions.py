"""Cancel a run, retry a cleanup. Both are safe to press twice and by two people at once."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from runs.services import access, lifecycle
from runs.services.cleaning import request_cleanup
from runs.services.lifecycle import CancelOutcome
from runs.services.refusals import Refusal

_CANCEL_WORDS = {
    CancelOutcome.CANCELLED: "Cancelled. It was still queued, so nothing had been created.",
    CancelOutcome.REQUESTED: "Cancelling. The worker stops and removes the run's containers, usually within 3 s.",
    CancelOutcome.ALREADY_REQUESTED: "The run is already being cancelled.",
    CancelOutcome.ENDED: "The run had already ended; nothing was cancelled.",
}
_ASKED = "Cleanup requested from {worker}. No trial runs again, and the verdict does not change."
_CLEAN = "Already clean; no cleanup was requested."


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
