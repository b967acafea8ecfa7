"""Answers of tools: one JSON object each, a refusal too, with control characters made visible."""

import json
from typing import Any

from django.core.exceptions import PermissionDenied
from mcp_types import CallToolResult, TextContent

from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Document, Exit
from benchsite.lib.visible_text import visible
from evidence.register.store import HashDiffers, StorageFails
from evidence.register.streaming import NotInStorage
from runs.serializers.errors import refusal_document
from runs.services.refusals import Refusal
from runs.services.transitions import IllegalTransition

_EVIDENCE_LOST = (HashDiffers, NotInStorage, StorageFails)
REFUSED = (Refusal, DocumentError, IllegalTransition, PermissionDenied, *_EVIDENCE_LOST)


def answer(document: Document, *, exact: tuple[str, ...] = ()) -> CallToolResult:
    """The document. Control characters become visible, except below the keys of ``exact``."""
    return _result({key: value if key in exact else harmless(value) for key, value in document.items()})


def refusal(error: Exception) -> CallToolResult:
    """One of ``REFUSED`` as an answer."""
    exit_code = Exit.ERROR if isinstance(error, _EVIDENCE_LOST) else None
    return failure(refusal_document(error, exit_code=exit_code))


def failure(document: Document) -> CallToolResult:
    """A ``benchsite.error/v1`` document as the answer; its exit code is what a command would end with."""
    return _result(harmless(document), is_error=True)


def harmless(value: Any) -> Any:
    """The same JSON value; control, direction and invisible characters in its texts become visible marks."""
    match value:
        case str():
            return visible(value)
        case dict():
            return {visible(str(key)): harmless(part) for key, part in value.items()}
        case list() | tuple():
            return [harmless(part) for part in value]
    return value


def _result(document: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    """As structured content, and as the same JSON in text for clients that only read text."""
    text = json.dumps(document, sort_keys=True)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=document, is_error=is_error)
