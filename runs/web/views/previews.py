"""Choose, preview, confirm. Nothing is created before the confirmation, and a changed world refuses it."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchsite.lib.pages import FormError
from runs.documents.specs import SpecDifference
from runs.models import Endpoint, Preview, Run
from runs.services import access, starting, workers
from runs.services.previewing import make_preview
from runs.services.refusals import BadInput, Changed, NoSuchPreview, NotAccepted, Refusal
from runs.web.forms import RunForm
from runs.web.presenting import specs
from runs.web.presenting.bundles import review_words
from runs.web.presenting.preview_page import preview_page as present

_CONFLICT = 409


@require_http_methods(["GET", "HEAD", "POST"])
def run_new(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.START)
    # What ``?like=<run>`` or ``?endpoint=<name>`` chooses beforehand.
    initial: dict[str, Any] = {}
    if name := request.GET.get("endpoint"):
        initial["endpoint"] = Endpoint.objects.filter(name=name, active=True).first()
    if key := request.GET.get("like"):
        run = access.run_or_404(request.user, key)
        spec = specs.read(run.spec)
        active = Endpoint.objects.filter(name=run.endpoint.name, active=True).first()
        tasks = [task.name for task in spec.tasks] if spec else []
        initial |= {"profile": run.profile, "endpoint": active, "worker": run.worker, "tasks": tasks}
    form = RunForm(request.POST or None, initial=initial)
    if form.is_valid():
        try:
            preview = make_preview(user=request.user, choice=form.choice)
        except BadInput as error:
            form.refuse(error)
        else:
            return redirect("preview", key=preview.pk)
    return render(request, "runs/run_new.html", {"form": form})


@require_safe
def preview_page(request: HttpRequest, key: UUID) -> HttpResponse:
    preview = _preview_or_404(request, key)
    return _page(request, preview)


@require_POST
def confirm(request: HttpRequest, key: UUID) -> HttpResponse:
    preview = _preview_or_404(request, key)
    token, accepted = request.POST.get("token", ""), request.POST.getlist("accept")
    try:
        run: Run = starting.confirm(user=request.user, preview_id=key, token=token, accepted=accepted)
    except NoSuchPreview as error:
        raise Http404(error.sentence) from error
    except Changed as error:
        return _page(request, preview, refusal=error, differences=error.differences)
    except NotAccepted as error:
        return _page(request, preview, refusal=error, missing=error.names)
    except Refusal as error:
        return _page(request, preview, refusal=error)
    if preview.consumed_by_id is not None:
        messages.info(request, "This preview was already confirmed; this is the run that it started.")
    return redirect("run", key=run.key)


def _preview_or_404(request: HttpRequest, key: UUID) -> Preview:
    person = access.require(request.user, access.START)
    related = ("profile", "bundle", "endpoint", "worker", "consumed_by")
    found = Preview.objects.select_related(*related).filter(pk=key, user=person).first()
    if found is None:
        raise Http404("There is no such preview of yours.")
    return found


def _page(
    request: HttpRequest,
    preview: Preview,
    *,
    refusal: Refusal | None = None,
    differences: list[SpecDifference] | None = None,
    missing: list[str] | None = None,
) -> HttpResponse:
    spec = specs.read(preview.spec)
    page = present(preview, timezone.now(), accepted=request.POST.getlist("accept"), missing=missing or [])
    if differences and page["state"] == "open":
        page |= {"state": "refused", "reason": "What would run has changed; a new preview shows it."}
    private = access.may(request.user, access.READ_PRIVATE)
    context = {
        "preview": preview,
        "page": page,
        "pins": specs.pins(spec, review_words(preview.bundle), private=private) if spec else [],
        "limits": specs.limits(spec) if spec else [],
        "roles": specs.roles(spec) if spec else [],
        "needs": specs.needs(spec, workers.report_of(preview.worker)) if spec else [],
        "token": starting.token_of(preview),
        "refusal": refusal,
        "differences": differences or [],
        "unaccepted": [
            FormError(
                accept["anchor"], f"I accept that {accept['agreed']}", "Tick this box to start the run.", refusal.code
            )
            for accept in page["accepts"]
            if accept["missed"] and refusal
        ],
        "now": timezone.now(),
    }
    return render(request, "runs/preview.html", context, status=_CONFLICT if refusal else 200)
