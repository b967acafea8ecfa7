"""Pages of profiles and endpoints."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from runs.models import Endpoint, Profile, Run
from runs.services import access
from runs.web import charts
from runs.web.presenting import models_table, specs
from runs.web.presenting.run_rows import run_row
from runs.web.views.connection import connection
from runs.web.views.overview import history
from runs.web.views.run_list import listed

_RECENT = 10
_FOR_HISTORY = 200
_CONTENT_LIMIT = 20_000


@require_safe
def profiles(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    return render(request, "runs/profiles.html", {"profiles": Profile.objects.defer("document", "source")})


@require_safe
def profile(request: HttpRequest, pk: int) -> HttpResponse:
    found = access.profile_or_404(request.user, pk)
    runs = list(listed().filter(profile=found)[:_FOR_HISTORY])
    context = {
        "profile": found,
        "document": (document := _pretty(found.document))[:_CONTENT_LIMIT],
        "cut": max(0, len(document) - _CONTENT_LIMIT),
        "suites": _suites(found.document),
        "models": [(row, history(row)) for row in models_table.model_rows(runs)],
        "runs": [(row, charts.strip(row.shares, row.aloud)) for row in map(run_row, runs[:_RECENT])],
    }
    return render(request, "runs/profile.html", context)


@require_safe
def endpoints(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    found = Endpoint.objects.defer("record").order_by("-active", "name", "-version")
    may_add = access.may(request.user, access.REGISTER_ENDPOINT) and request.user.is_staff
    return render(request, "runs/endpoints.html", {"endpoints": found, "may_add": may_add})


@require_safe
def endpoint(request: HttpRequest, name: str, version: int) -> HttpResponse:
    found = access.endpoint_or_404(request.user, name, version)
    runs = list(listed().filter(endpoint__name=name)[:_RECENT])
    private = access.may(request.user, access.READ_PRIVATE)
    context = {
        "endpoint": found,
        "credential": specs.credential_place(_object(found.record).get("credential") or {}, private=private),
        "versions": Endpoint.objects.filter(name=name).defer("record"),
        "runs": [(row, charts.strip(row.shares, row.aloud)) for row in map(run_row, runs)],
        "live": connection(request, found).placed(request),
        "used": Run.objects.filter(endpoint=found).count(),
        "may_start": access.may(request.user, access.START) and found.active,
    }
    return render(request, "runs/endpoint.html", context)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _pretty(document: str) -> str:
    return json.dumps(_object(document), indent=2, sort_keys=True)


def _suites(document: str) -> list[tuple[str, str]]:
    """Each suite with its cases in a few words."""
    suites = _object(document).get("suites")
    rows = []
    for name, suite in suites.items() if isinstance(suites, dict) else ():
        cases = suite.get("cases") if isinstance(suite, dict) else None
        count = len(cases) if isinstance(cases, list) else cases
        rows.append((str(name), f"{count} cases" if count is not None else "cases not named"))
    return rows
