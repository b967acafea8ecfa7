"""What an error of the endpoint says, by its codes only and never by its sentences. Pure.

Servers spell the same thing differently, and put it into `code`, `type` or `status`.
"""

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from . import strict_json

MAX_RETRY_AFTER_S = 86_400
_MAX_BYTES = 256 * 1024
_OVERFLOW_STATUSES = frozenset({400, 413, 422})
# OpenAI, Azure, Groq and others; llama.cpp; LiteLLM; GitHub's. vLLM, SGLang and Gemini have a sentence only, and
# Mistral's 3051 stands for other faults of a request as well.
_OVERFLOWS = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "exceed_context_size_error",
        "contextwindowexceedederror",
        "model_max_prompt_tokens_exceeded",
        "max_prompt_tokens_exceeded",
    }
)
_STATUSES = {
    401: ("invalid_api_key", "authentication_error", "unauthorized", "unauthenticated"),
    403: ("permission_error", "permission_denied", "permissiondenied", "forbidden"),
    404: ("model_not_found", "not_found_error", "not_found"),
    408: ("request_timeout",),
    429: ("rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "insufficient_quota",
          "resource_exhausted"),
    500: ("server_error", "internal_error", "internal_server_error", "api_error", "internal"),
    503: ("overloaded_error", "overloaded", "service_unavailable", "unavailable", "server_overloaded",
          "engine_overloaded"),
    504: ("timeout", "timeout_error", "deadline_exceeded", "gateway_timeout"),
    400: ("invalid_request_error", "bad_request", "badrequesterror", "invalid_argument"),
}  # fmt: skip
_STATUS_OF_WORD = {word: status for status, words in _STATUSES.items() for word in words}
_ERROR_STATUS = re.compile(r"[45][0-9]{2}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def is_context_overflow(error: Any) -> bool:
    """Whether an error object's code or type says that the conversation does not fit the model's context window."""
    return any(word in _OVERFLOWS for word in _words(error))


def overflows(status: int, body: bytes) -> bool:
    """Whether an answer that is no 2xx says so."""
    if status not in _OVERFLOW_STATUSES or len(body) > _MAX_BYTES:
        return False
    try:
        document = strict_json.load(body, size=_MAX_BYTES)
    except strict_json.JsonProblem:
        return False
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return False
    return is_context_overflow(first.get("error", first))


def status_of(error: Any) -> int | None:
    """The status that an error's own code stands for, None when it says none; the code goes before the type."""
    for word in _words(error):
        if _ERROR_STATUS.fullmatch(word):
            return int(word)
        if word in _STATUS_OF_WORD:
            return _STATUS_OF_WORD[word]
    return None


def _words(error: Any) -> list[str]:
    members = (error.get(name) for name in ("code", "status", "type")) if isinstance(error, dict) else (error,)
    return [str(word).lower() for word in members if type(word) in (str, int)]


def retry_after_s(value: bytes | None, now: datetime | None = None) -> int | None:
    """Whole seconds of a `Retry-After`, a number or a date, at most a day; None when it is neither."""
    text = "" if value is None else value.decode("latin-1").strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            until = parsedate_to_datetime(text)
            until = until if until.tzinfo is not None else until.replace(tzinfo=timezone.utc)
            seconds = (until - (now or datetime.now(timezone.utc))).total_seconds()
        except (ValueError, OverflowError):  # no date, or one of a year that there cannot be
            return None
    return min(max(0, -int(-seconds // 1)), MAX_RETRY_AFTER_S)
