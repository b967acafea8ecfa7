"""Leads from a short run id to the run's full address."""

from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from runs.services import access
from runs.web.presenting.run_rows import run_row


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
