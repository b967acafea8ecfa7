"""Answers of the API: documents as JSON, refusals as `benchsite.error/v1`, and how OpenAPI names both."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse

import runs
from benchsite.lib.serializing import Document, Exit, error_document
from evidence.models import Experiment
from runs.models import Run

_SCHEMAS = Path(runs.__file__).parent / "schemas"
_WORDS = {
    400: "The request cannot be understood",
    401: "No token, or none that counts",
    403: "The token's scopes, or its person's role, do not allow it",
    404: "There is nothing of that name, or the person may not see it",
    405: "The address does not take this method",
    413: "The body is larger than this address takes",
    429: "Too many requests with this token; Retry-After says how many seconds to wait",
}
ALWAYS = (401, 403, 429)
ERROR = "error.v1"
_EXITS = {429: Exit.BLOCKED, 500: Exit.ERROR}


def answer(document: Document, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A document as it is."""
    text = json.dumps(document, ensure_ascii=True)
    return HttpResponse(text, status=status, content_type="application/json", headers=headers)


def refused(status: int, code: str, sentence: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A refusal with its code and what to do about it."""
    return answer(error_document(code, sentence, _EXITS.get(status, Exit.BAD_INPUT)), status, headers)


def older(request: HttpRequest, rows: Sequence[Run] | Sequence[Experiment], limit: int) -> dict[str, str]:
    """The header Link to what follows the first `limit` rows of a list; empty when nothing does."""
    if len(rows) <= limit:
        return {}
    query = request.GET.copy()
    query["before"] = rows[limit - 1].key
    return {"Link": f'<{request.path}?{query.urlencode()}>; rel="next"'}


@cache
def document_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document, without what belongs to a file of its own."""
    schema: dict[str, Any] = json.loads((_SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return {key: value for key, value in schema.items() if key != "$schema"}


def documented(schema: str, *errors: int) -> dict[str, Any]:
    """The answers of one operation for OpenAPI: its document by its schema's file, and each refusal."""
    found = {200: _content("Done", schema)}
    for code in sorted({*ALWAYS, *errors}):
        found[code] = _content(_WORDS[code], ERROR)
    return {"openapi_extra": {"responses": found}}


def _content(words: str, schema: str) -> dict[str, Any]:
    return {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
