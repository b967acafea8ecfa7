"""The pages of errors: what a person sees when a request cannot be answered, and what to do about it."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def _error(request: HttpRequest, status: int, word: str, sentence: str, remedy: str) -> HttpResponse:
    context = {"status": status, "word": word, "sentence": sentence, "remedy": remedy}
    return render(request, "error.html", context, status=status)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(request, 400, "Bad request", "The request could not be read.", "Go back and try again.")


@login_not_required
def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(
        request,
        403,
        "Not allowed",
        "Your role does not allow this.",
        "An administrator can give you a role that does; your account page lists the roles you have.",
    )


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _error(
        request,
        403,
        "Form expired",
        "The form was not sent from a current page of this site, so nothing was done.",
        "Reload the page and try again.",
    )


def spent_link(request: HttpRequest) -> HttpResponse:
    """A link that signs in once, a second time."""
    return _error(
        request,
        404,
        "Link no longer valid",
        "This link signs in once: it was used already, or is no longer valid.",
        "manage.py demo_login prints a new one.",
    )


@login_not_required
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(
        request,
        404,
        "Not found",
        "There is nothing at this address, or you are not allowed to see it.",
        "Check the address, or start from the overview.",
    )


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    return _error(
        request,
        500,
        "Server error",
        "The site could not answer this request. The error is in its log.",
        "Try again; if it happens again, tell an administrator the time and this address.",
    )
