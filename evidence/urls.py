"""Which page of the evidence app answers which address?"""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from evidence.views import compare
from runs.urls import KeyConverter as _registered  # noqa: F401 - importing it registers the converter


def todo(request: HttpRequest, **_) -> HttpResponse:
    return HttpResponse("")


urlpatterns = [
    path("runs/compare/", compare.compare_page, name="compare"),
    path("runs/<key:key>/trials/<int:ordinal>/trajectory/", todo, name="trajectory"),
]
