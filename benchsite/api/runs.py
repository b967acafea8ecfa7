"""Runs, endpoints, and the token itself."""

from typing import Annotated
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from benchsite.api.answers import answer, documented, older
from benchsite.api.bearer import Bearer, person
from benchsite.api.reading import LIMIT, Whole, only
from runs.models import Endpoint, Run
from runs.serializers.runs import run_document, runs_document
from runs.serializers.tokens import token_document
from runs.serializers.workers import endpoints_document
from runs.services import access, lifecycle
from runs.services.refusals import BadInput, quoted
from runs.services.tokens import Scope
from runs.web.views.run_list import RunFilter

router = Router()
_READ, _RUN = Bearer(Scope.READ), Bearer(Scope.RUN)
_FILTERS = ("state", "verdict", "profile", "endpoint", "who", "cleanup")


@router.get("/token", auth=_READ, summary="This token", tags=["token"], **documented("token.v1", 400))
def get_token(request: HttpRequest) -> HttpResponse:
    """What the token may do and until when; never what it says."""
    only(request)
    return answer(token_document(request.auth))  # type: ignore[attr-defined]


@router.get("/runs", auth=_READ, summary="List runs", tags=["runs"], **documented("runs.v1", 400))
def list_runs(
    request: HttpRequest,
    limit: Whole = LIMIT,
    before: Annotated[str, Query(description="Only runs that are older than the run of this id")] = "",
    state: Annotated[str, Query(description="queued, running or ended")] = "",
    verdict: Annotated[str, Query(description="passed, failed, incomplete, error or cancelled")] = "",
    profile: Annotated[str, Query(description="Name of the profile")] = "",
    endpoint: Annotated[str, Query(description="Name of the endpoint")] = "",
    who: Annotated[str, Query(description="Who started it")] = "",
    cleanup: Annotated[str, Query(description="clean, failed, declared or pending")] = "",
) -> HttpResponse:
    """Runs, newest first. While there are older ones, the header Link names the address that lists them."""
    only(request, "limit", "before", *_FILTERS)
    access.require(person(request), access.VIEW)
    chosen = RunFilter(request.GET, queryset=Run.objects.all())
    if not chosen.is_valid():
        field, said = next(iter(chosen.form.errors.items()))
        raise BadInput(f"{field}: {' '.join(str(sentence) for sentence in said)}")
    found = chosen.qs.select_related("profile", "bundle", "endpoint", "worker").prefetch_related("trials")
    if before:
        anchor = Run.objects.only("id", "created_at").filter(pk=_run_id(before)).first()
        if anchor is None:
            raise BadInput(f"before: there is no run {quoted(before)}.", code="input.unknown_run")
        found = found.filter(Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, id__lt=anchor.id))
    rows = list(found.order_by("-created_at", "-id")[: limit + 1])
    return answer(runs_document(rows[:limit]), headers=older(request, rows, limit))


@router.get("/runs/{run}", auth=_READ, summary="One run", tags=["runs"], **documented("run.v1", 400, 404))
def get_run(request: HttpRequest, run: str) -> HttpResponse:
    """A run by its id or its first 8 or more characters; to who may read private evidence, with what it owned."""
    only(request)
    user = person(request)
    found = access.run_or_404(user, run)
    return answer(run_document(found, private=access.may(user, access.READ_PRIVATE)))


@router.post("/runs/{run}/cancel", auth=_RUN, summary="Cancel a run", tags=["runs"], **documented("run.v1", 400, 404))
def cancel_run(request: HttpRequest, run: str) -> HttpResponse:
    """Ask for a run's end; it may be repeated. The field outcome says what came of it."""
    only(request)
    user = person(request)
    found = access.run_or_404(user, run, access.CANCEL)
    outcome = lifecycle.request_cancel(found.pk, user=user)
    private = access.may(user, access.READ_PRIVATE)
    return answer(run_document(access.run_or_404(user, found.pk), private=private, outcome=outcome))


@router.get("/endpoints", auth=_READ, summary="List endpoints", tags=["endpoints"], **documented("endpoints.v2", 400))
def list_endpoints(request: HttpRequest) -> HttpResponse:
    """The endpoints in use, by name."""
    only(request)
    access.require(person(request), access.VIEW)
    return answer(endpoints_document(Endpoint.objects.filter(active=True).defer("record").order_by("name")))


def _run_id(text: str) -> UUID:
    try:
        return UUID(hex=text)
    except ValueError:
        raise BadInput(f"before: {quoted(text)} is no run's whole id.", code="input.bad_run_id") from None
