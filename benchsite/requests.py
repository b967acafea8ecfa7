"""Middleware of every request: its id in the log, pages that no browser keeps, and no unseen character on them."""

import re
import uuid
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.core.signals import request_finished
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from structlog.contextvars import bind_contextvars, clear_contextvars

from benchsite.lib.visible_text import visible

# What a proxy may hand in: nothing that could break a line, a header or a query of the log.
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}", re.ASCII)
_OTHER_KEYS = frozenset({"preview", "preview_confirm"})  # pages whose key is not a run's


class RequestIdMiddleware:
    """Binds the request's id, and the run that its address names, to every line; answers with the id.

    What is bound stays until the response was closed: Django writes its own line about a refused request, and a
    streamed body is made, after all middleware has returned.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = request_id_of(request)
        clear_contextvars()  # of a request that never came to its end in this thread
        bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response["X-Request-ID"] = request_id
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        key, match = kwargs.get("key"), request.resolver_match
        if isinstance(key, UUID) and match is not None and match.url_name not in _OTHER_KEYS:
            bind_contextvars(run=key.hex)


class PrivatePagesMiddleware:
    """Who signed in was shown what others may not see: no browser or proxy keeps it, so that after a sign-out nobody
    finds it by going back. An answer that says how it may be kept is left as it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if "Cache-Control" not in response.headers and request.user.is_authenticated:
            response["Cache-Control"] = "private, no-store"
        return response


class VisibleTextMiddleware:
    """No page holds a character that nothing is seen of, whoever wrote it and whichever template shows it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_page = response.get("Content-Type", "").startswith("text/html")
        if is_page and isinstance(response, HttpResponse):
            response.content = visible(response.content.decode(errors="replace").replace("\r\n", "\n"))
        return response


@receiver(request_finished, dispatch_uid="benchsite.requests.forget")
def _forget(**_: Any) -> None:
    clear_contextvars()


def request_id_of(request: HttpRequest) -> str:
    """The id that was handed in when it is safe and bounded, else a new one."""
    given = request.headers.get("X-Request-ID", "")
    return given if _SAFE.fullmatch(given) else uuid.uuid4().hex
