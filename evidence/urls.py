"""Which page of the evidence app answers which address?"""

from django.http import HttpRequest, HttpResponse
from django.urls import path


def todo(request: HttpRequest, **_) -> HttpResponse:
    return HttpResponse("")


urlpatterns = [
    path("runs/compare/", todo, name="compare"),
    path("runs/<str:key>/trials/<int:ordinal>/trajectory/", todo, name="trajectory"),
]
