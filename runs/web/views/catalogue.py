"""Pages of profiles and endpoints, and the connection tests of an endpoint."""

import json
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from runs.models import Endpoint, EndpointStop, Profile, Run, Worker
from runs.services import access, endpoint_switch, endpoint_testing, endpoint_usage, registry
from runs.services.refusals import Refusal
from runs.web.presenting import models_table, specs
from runs.web.presenting.check_rows import check_row, connection_outcome
from runs.web.presenting.run_rows import run_row
from runs.web.views.live import Live, answered, part
from runs.web.views.overview import history
from runs.web.views.run_list import listed

_RECENT = 10
_FOR_HISTORY = 200
_CONTENT_LIMIT = 20_000
_REASON_KEPT = 1_000


@require_safe
def profiles(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    return render(request, "runs/profiles.html", {"profiles": Profile.objects.defer("document", "source")})


@require_safe
def profile(request: HttpRequest, pk: int) -> HttpResponse:
    found = access.profile_or_404(request.user, pk)
    runs = list(listed().filter(profile=found)[:_FOR_HISTORY])
    # Each suite with its cases in a few words.
    suites = stored_object(found.document).get("suites")
    rows = []
    for name, suite in suites.items() if isinstance(suites, dict) else ():
        cases = suite.get("cases") if isinstance(suite, dict) else None
        count = len(cases) if isinstance(cases, list) else cases
        rows.append((str(name), f"{count} cases" if count is not None else "cases not named"))
    context = {
        "profile": found,
        "document": (document := json.dumps(stored_object(found.document), indent=2, sort_keys=True))[:_CONTENT_LIMIT],
        "cut": max(0, len(document) - _CONTENT_LIMIT),
        "suites": rows,
        "models": [(row, history(row)) for row in models_table.model_rows(runs)],
        "runs": [run_row(run) for run in runs[:_RECENT]],
    }
    return render(request, "runs/profile.html", context)


@require_safe
def endpoints(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    found = Endpoint.objects.defer("record").order_by("-active", "name", "-version")
    may_add = access.may(request.user, access.REGISTER_ENDPOINT) and request.user.is_staff
    stops = set(EndpointStop.objects.values_list("name", flat=True))
    return render(request, "runs/endpoints.html", {"endpoints": found, "may_add": may_add, "stops": stops})


@require_safe
def endpoint(request: HttpRequest, name: str, version: int) -> HttpResponse:
    found = access.endpoint_or_404(request.user, name, version)
    runs = list(listed().filter(endpoint__name=name)[:_RECENT])
    private = access.may(request.user, access.READ_PRIVATE)
    record, stop = stored_object(found.record), endpoint_switch.stopped(name)
    context = {
        "endpoint": found,
        "credential": specs.credential_place(record.get("credential") or {}, private=private),
        "ca_file": record.get("ca_file") and (record["ca_file"] if private else "a file on the worker"),
        "headers": record.get("headers") or {},
        "private_addresses": found.route == "direct" and record.get("private_addresses", "allowed"),
        "versions": Endpoint.objects.filter(name=name).defer("record"),
        "runs": [run_row(run) for run in runs],
        **specs.spending(record, endpoint_usage.of_record(found.name, record)),
        "live": connection(request, found, stop).placed(request),
        "used": Run.objects.filter(endpoint=found).count(),
        "stop": stop,
        "may_start": access.may(request.user, access.START) and found.active and stop is None,
        "may_switch": (endpoint_switch.may_allow if stop else endpoint_switch.may_stop)(request.user),
        "reason": request.GET.get("reason", ""),
    }
    return render(request, "runs/endpoint.html", context)


@require_POST
def endpoint_stop(request: HttpRequest, name: str, version: int) -> HttpResponse:
    found = access.endpoint_or_404(request.user, name, version)
    place, reason = reverse("endpoint", args=[name, version]), request.POST.get("reason", "")
    try:
        ended = endpoint_switch.stop(user=request.user, name=found.name, reason=reason)
    except Refusal as error:
        messages.warning(request, error.sentence, "attention")
        return redirect(f"{place}?{urlencode({'reason': reason[:_REASON_KEPT]})}#traffic")
    messages.info(request, f"Stopped. {words.counted(len(ended), 'run')} asked to end.")
    return redirect(place)


@require_POST
def endpoint_allow(request: HttpRequest, name: str, version: int) -> HttpResponse:
    found = access.endpoint_or_404(request.user, name, version)
    if endpoint_switch.allow(user=request.user, name=found.name):
        messages.info(request, "Allowed again. Runs that were ended stay ended.")
    return redirect(reverse("endpoint", args=[name, version]))


_EVERY_S = 2
_ASKED = "Connection test requested from {worker}. The result appears below."
_OPEN = "{worker} is already testing this connection."


def connection(request: HttpRequest, endpoint: Endpoint, stop: EndpointStop | None) -> Live:
    """The last test from each worker; the page asks for it as long as one is open."""
    tests = endpoint_testing.last_tests(endpoint)
    may_test = endpoint.active and endpoint_testing.may_test(request.user) and stop is None
    workers = Worker.objects.filter(lost_declared_at__isnull=True).order_by("name") if may_test else []
    context = {
        "endpoint": endpoint,
        "tests": [(test, connection_outcome(test), [check_row(check) for check in test.checks]) for test in tests],
        "workers": workers,
        "chosen": request.GET.get("worker", ""),
    }
    inner = render_to_string("runs/endpoint.html#connection", context, request)
    address = reverse("endpoint_connection", args=[endpoint.name, endpoint.version])
    every_s = _EVERY_S if any(test.live for test in tests) else 0
    return Live((part("connection", inner),), address, every_s)


@require_safe
def connection_panel(request: HttpRequest, name: str, version: int) -> HttpResponse:
    endpoint = access.endpoint_or_404(request.user, name, version)
    return answered(request, connection(request, endpoint, endpoint_switch.stopped(name)))


@require_POST
def connection_test(request: HttpRequest, name: str, version: int) -> HttpResponse:
    endpoint = access.endpoint_or_404(request.user, name, version)
    place, chosen = reverse("endpoint", args=[name, version]), request.POST.get("worker", "")
    try:
        worker = registry.find_worker(chosen)
        _, new = endpoint_testing.request_test(user=request.user, endpoint=endpoint, worker=worker)
    except Refusal as error:
        messages.warning(request, error.sentence, "attention")
        return redirect(f"{place}?{urlencode({'worker': chosen})}")  # what was chosen stays chosen
    messages.info(request, (_ASKED if new else _OPEN).format(worker=worker.name))
    return redirect(f"{place}#connection")
