"""Connection tests of an endpoint: request one, and the live panel of their results."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from runs.models import Endpoint, Worker
from runs.services import access, endpoint_testing, registry
from runs.services.refusals import Refusal
from runs.web.presenting.connections import connection_row
from runs.web.views.live import Live, answered, part

_EVERY_S = 2
_ASKED = "Connection test requested from {worker}. The result appears below."
_OPEN = "{worker} is already testing this connection."


def connection(request: HttpRequest, endpoint: Endpoint) -> Live:
    """The last test from each worker; the page asks for it as long as one is open."""
    tests = endpoint_testing.last_tests(endpoint)
    may_test = endpoint.active and endpoint_testing.may_test(request.user)
    workers = Worker.objects.filter(lost_declared_at__isnull=True).order_by("name") if may_test else []
    context = {
        "endpoint": endpoint,
        "tests": [connection_row(test) for test in tests],
        "workers": workers,
        "chosen": request.GET.get("worker", ""),
    }
    inner = render_to_string("runs/endpoint.html#connection", context, request)
    address = reverse("endpoint_connection", args=[endpoint.name, endpoint.version])
    every_s = _EVERY_S if any(test.live for test in tests) else 0
    return Live((part("connection", inner),), address, every_s)


@require_safe
def panel(request: HttpRequest, name: str, version: int) -> HttpResponse:
    endpoint = access.endpoint_or_404(request.user, name, version)
    return answered(request, connection(request, endpoint))


@require_POST
def test(request: HttpRequest, name: str, version: int) -> HttpResponse:
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
