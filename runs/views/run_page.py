"""One run: what it amounts to, what happened in its trials, what it said, what it still owns."""

from typing import Any
from uuid import UUID

from django.db.models import prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from runs import access
from runs.models import AuditEntry, Run
from runs.presenting import run_head, specs
from runs.views import run_panels
from runs.views.live import answered, remembered

_AUDIT_SHOWN = 12


@require_safe
def run_page(request: HttpRequest, key: UUID) -> HttpResponse:
    run = access.run_or_404(request.user, key)
    prefetch_related_objects([run], "resources")  # two panels show them
    spec = specs.read(run.spec)
    context: dict[str, Any] = {
        "run": run,
        "head": run_head.head(run, spec),
        "panels": {name: run_panels.panel(request, run, name).html for name in run_panels.NAMES},
        "pins": specs.pins(spec, _review(run)),
        "spec_sha256": f"sha256:{run.spec_sha256}",
        "audit": _audit(request, run),
        "may_start": access.may(request.user, access.START),
    }
    return render(request, "runs/run.html", context)


@require_safe
def run_panel(request: HttpRequest, key: UUID, name: str) -> HttpResponse:
    """One panel on its own: 304 when the reader has it already, and no further polling once the run has ended."""
    access.require(request.user, access.VIEW)
    if name not in run_panels.NAMES:
        raise Http404("No such panel.")
    made = remembered(request, lambda: run_panels.panel(request, access.run_or_404(request.user, key), name))
    return answered(request, made)


def _review(run: Run) -> str:
    bundle = run.bundle
    if bundle.reviewed_at is None:
        return "not reviewed"
    return f"reviewed by {bundle.reviewed_by_name} on {bundle.reviewed_at:%-d %b %Y}"


def _audit(request: HttpRequest, run: Run) -> list[run_head.AuditRow] | None:
    if not access.may(request.user, access.READ_PRIVATE):
        return None
    newest = AuditEntry.objects.filter(run_id=run.pk)[:_AUDIT_SHOWN]
    return [run_head.audit_row(entry) for entry in reversed(newest)]
