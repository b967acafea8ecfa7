"""The API put together: its resources, what each error is answered with, its addresses, and its documentation."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from benchsite.api import experiments, runs
from benchsite.api.answers import ALWAYS, ERROR, answer, document_schema, refused
from benchsite.api.bearer import OutOfScope, TooMany
from benchsite.api.reading import StrictParser
from benchsite.lib.problems import DocumentError, path_of
from runs.serializers.errors import refusal_document
from runs.services import tokens
from runs.services.refusals import BadInput, Refusal

PREFIX = "/api/v1/"
NO_TOKEN = "Send the header Authorization: Bearer and a token; the account page and manage.py token make one."

api = NinjaAPI(title="benchsite", version="1", docs_url=None, openapi_url=None, parser=StrictParser())
api.add_router("", runs.router)
api.add_router("", experiments.router)


@api.exception_handler(AuthenticationError)
def _no_token(request: HttpRequest, error: Any) -> HttpResponse:
    return refused(401, "api.no_token", NO_TOKEN, {"WWW-Authenticate": "Bearer"})


@api.exception_handler(OutOfScope)
def _out_of_scope(request: HttpRequest, error: Any) -> HttpResponse:
    return refused(403, "api.scope", f"This token lacks the scope {error.scope.value}; make one that has it.")


@api.exception_handler(TooMany)
def _too_many(request: HttpRequest, error: Any) -> HttpResponse:
    sentence = f"This token made too many requests in a minute; wait {error.wait_s} seconds."
    return refused(429, "api.too_many", sentence, {"Retry-After": str(error.wait_s)})


@api.exception_handler(PermissionDenied)
def _not_allowed(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(refusal_document(error), status=403)


@api.exception_handler(Http404)
def _not_found(request: HttpRequest, error: Any) -> HttpResponse:
    return refused(404, "api.not_found", "There is nothing of that name here, or you may not see it.")


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: Any) -> HttpResponse:
    said = "; ".join(f"{path_of(item['loc'][1:]) or 'the body'}: {item['msg']}" for item in error.errors[:20])
    return refused(400, "input.bad", said)


@api.exception_handler(Refusal)
@api.exception_handler(DocumentError)
def _refused(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(refusal_document(error), status=400)


@api.exception_handler(HttpError)
def _unreadable(request: HttpRequest, error: Any) -> HttpResponse:
    """What the parser of bodies raised stands behind the framework's own error."""
    if isinstance(error.__cause__, BadInput):
        return _refused(request, error.__cause__)
    if isinstance(error.__cause__, RequestDataTooBig):
        return _too_large(request, error.__cause__)
    return refused(400, "input.bad", "The body cannot be read.")


@api.exception_handler(RequestDataTooBig)
def _too_large(request: HttpRequest, error: Any) -> HttpResponse:
    return refused(413, "api.too_large", "The body is larger than this address takes.")


def _for_programs(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Neither session nor form token is asked for, nothing is kept, and a wrong method is refused like all else."""

    @login_not_required
    @csrf_exempt
    @wraps(view)
    def answered(request: HttpRequest, **named: Any) -> HttpResponseBase:
        response = view(request, **named)
        if response.status_code == 405:
            allowed = response["Allow"]
            response = refused(405, "api.method", f"This address takes {allowed}.", {"Allow": allowed})
        response["Cache-Control"] = "no-store"
        return response

    return answered


def _nothing(request: HttpRequest) -> HttpResponse:
    return _not_found(request, None)


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI document: the operations, and each document that they answer with as its own schema."""
    document: dict[str, Any] = dict(api.get_openapi_schema(path_prefix=PREFIX))
    document["info"] = {"title": "benchsite", "version": "1", "description": "See docs/api.md."}
    schemas = document["components"].setdefault("schemas", {})
    for operations in document["paths"].values():
        for operation in operations.values():
            given = {int(status): said for status, said in operation["responses"].items()}
            operation["responses"] = {str(status): given[status] for status in sorted(given)}
            for said in operation["responses"].values():
                name = _schema_of(said)
                schemas.setdefault(name, document_schema(name))
    return document


def _schema_of(said: dict[str, Any]) -> str:
    """The name of the document that one answer holds."""
    reference: str = said["content"]["application/json"]["schema"]["$ref"]
    return reference.rpartition("/")[2]


@login_not_required
@require_safe
def openapi_json(request: HttpRequest) -> HttpResponse:
    """For who signed in, and for who shows a token of any scope."""
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    shown = kind.lower() == "bearer" and tokens.authenticated(text) is not None
    if not shown and not request.user.is_authenticated:
        return _no_token(request, None)
    return answer(openapi())


@require_safe
def documentation(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document as a page: it needs no script and nothing from elsewhere."""
    operations = [
        {
            "method": method.upper(),
            "path": address,
            "summary": said["summary"],
            "description": said.get("description", ""),
            "parameters": said.get("parameters", []),
            "body": said.get("requestBody"),
            "responses": [
                (status, found["description"], _schema_of(found))
                for status, found in said["responses"].items()
                if int(status) not in ALWAYS
            ],
        }
        for address, methods in openapi()["paths"].items()
        for method, said in methods.items()
    ]
    return render(request, "api.html", {"operations": operations, "error": ERROR})


def urls() -> list[URLPattern]:
    """All addresses below the prefix; what is none of them is refused as JSON too."""
    found: list[Any] = api.urls[0]
    for pattern in found:
        pattern.callback = _for_programs(pattern.callback)
    operations = [pattern for pattern in found if pattern.name != "api-root"]
    for pattern in operations:
        pattern.name = None  # the OpenAPI document names them
    return [
        path("docs", documentation, name="api_docs"),
        path("openapi.json", openapi_json, name="api_schema"),
        *operations,
        re_path("", _for_programs(_nothing), name="api_unknown"),
    ]
