"""What needs somebody, what runs now, how do the models do?"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "runs/overview.html", {})
