"""The page of a run, and its live updates."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from runs.models import Run
from runs.services import access
from runs.web.presenting import specs
from runs.web.views import run_panels
from runs.web.views.live import Live, answered, remembered


@require_safe
def run_page(request: HttpRequest, key: UUID) -> HttpResponse:
    run = access.run_or_404(request.user, key)
    last = run_panels.acts(run)
    state = f"{run.updated_at} {last[0].pk if last else ''}"  # changes with whatever a person does to a run
    live = remembered(request, lambda: run_panels.live(request, run, last), state=state)
    spec = specs.read(run.spec)
    private = access.may(request.user, access.READ_PRIVATE)
    context: dict[str, Any] = {
        "short": run.key[:8],
        "terminal": run.terminal,
        "now": timezone.now(),
        "live": live.placed(request),
        "pins": specs.pins(spec, _review(run), private=private) if spec else [],
        "spec_sha256": f"sha256:{run.spec_sha256}",
    }
    return render(request, "runs/run.html", context)


@require_safe
def run_live(request: HttpRequest, key: UUID) -> HttpResponse:
    """The parts of the page that changed since the reader's; 304 for none, and no more asking once all is settled."""
    access.require(request.user, access.VIEW)
    return answered(request, remembered(request, lambda: _made(request, access.run_or_404(request.user, key))))


def _made(request: HttpRequest, run: Run) -> Live:
    return run_panels.live(request, run, run_panels.acts(run))


def _review(run: Run) -> str:
    bundle = run.bundle
    if bundle.reviewed_at is None:
        return "not reviewed"
    return f"reviewed by {bundle.reviewed_by_name} on {bundle.reviewed_at:%-d %b %Y}"
