"""The pages of errors: what a person sees when a request cannot be answered, and what to do about it."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def _page(status: int, word: str, sentence: str, remedy: str) -> Callable[..., HttpResponse]:
    """A view that answers with this error; Django calls it with the exception or the reason, which nobody is shown."""
    context = {"status": status, "word": word, "sentence": sentence, "remedy": remedy}

    @login_not_required
    def view(request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        return render(request, "error.html", context, status=status)

    return view


bad_request = _page(400, "Bad request", "The request could not be read.", "Go back and try again.")
forbidden = _page(
    403,
    "Not allowed",
    "Your role does not allow this.",
    "An administrator can give you a role that does; your account page lists the roles you have.",
)
csrf_failure = _page(
    403,
    "Form expired",
    "The form was not sent from a current page of this site, so nothing was done.",
    "Reload the page and try again.",
)
# A link that signs in once, a second time.
spent_link = _page(
    404,
    "Link no longer valid",
    "This link signs in once: it was used already, or is no longer valid.",
    "manage.py demo_login prints a new one.",
)
not_found = _page(
    404,
    "Not found",
    "There is nothing at this address, or you are not allowed to see it.",
    "Check the address, or start from the overview.",
)
server_error = _page(
    500,
    "Server error",
    "The site could not answer this request. The error is in its log.",
    "Try again; if it happens again, tell an administrator the time and this address.",
)
