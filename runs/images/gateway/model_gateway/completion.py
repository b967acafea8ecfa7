"""Is this 2xx body a completion by the declared model? Pure; the body is passed on unchanged either way."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from . import strict_json

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
# What is larger is passed on, but no completion: it would not fit the declared tokens, nor, taken apart, the memory.
MAX_JUDGED_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32
MAX_ITEMS = 262_144
_MOST_TOKENS = 2**53


@dataclass(frozen=True)
class Judgement:
    """`kind` is ok, malformed or wrong_model; `message_sha256` is the `message_digest` of what was said."""

    kind: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    message_sha256: str | None = None


def judge(body: bytes, accepted_models: frozenset[str]) -> Judgement:
    """Judge a 2xx body: well-formed, and naming an accepted model (the alias, or its declared other name)."""
    try:
        document = strict_json.load(body, size=MAX_JUDGED_BYTES, depth=MAX_DEPTH, items=MAX_ITEMS)
    except strict_json.JsonProblem:
        return Judgement("malformed")
    message = _message(document)
    if message is None or not isinstance(document.get("model"), str):
        return Judgement("malformed")
    usage = document.get("usage")
    return Judgement(
        "ok" if document["model"] in accepted_models else "wrong_model",
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        message_sha256=message_digest(message),
    )


def message_digest(message: dict[str, Any]) -> str:
    """SHA-256 of canonical `{"content", "tool_calls": [[id, name, arguments]]}`.

    The agent's trajectory keeps the message but not the body's bytes: a step is matched by this.
    """
    calls = [
        [call.get("id"), call["function"].get("name"), call["function"].get("arguments")]
        for call in message.get("tool_calls") or []
    ]
    form = {"content": message.get("content") or "", "tool_calls": calls}
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _message(document: Any) -> dict[str, Any] | None:
    choices = document.get("choices") if isinstance(document, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    return message if isinstance(message, dict) and _says_something(message) else None


def _says_something(message: dict[str, Any]) -> bool:
    content, calls = message.get("content"), message.get("tool_calls")
    if message.get("role", "assistant") != "assistant" or not isinstance(content, (str, type(None))):
        return False
    if calls is None:
        return content is not None
    well_formed = isinstance(calls, list) and all(_is_call(call) for call in calls)
    return well_formed and (content is not None or bool(calls))


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
        and isinstance(call.get("id"), (str, type(None)))
    )


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
