"""What a 2xx body is, of the APIs beside chat completions: the API's answer by the declared model, or not. Pure.

What was said is brought into the one form that `message_digest` knows, so that a line of the ledger means the same for
each API. A body that is well-formed but nobody's words (vectors, a count of tokens) is of kind `answer`.
"""

import json
from typing import Any

from . import completion, strict_json
from .completion import Judgement

# A vector has an item for each of its numbers.
_VECTOR_ITEMS = 4 * 1024 * 1024


class NotAnAnswer(Exception):
    """This is not what the API answers; `judgement` says what it is instead."""

    def __init__(self, judgement: Judgement) -> None:
        super().__init__(judgement.code)
        self.judgement = judgement


def judge_response(body: bytes, accepted_models: frozenset[str]) -> Judgement:
    """An answer of the Responses API: whole, or cut by a limit or a filter."""
    try:
        document = _document(body)
        output = _objects(document, "output")
        if document.get("status") not in ("completed", "incomplete"):
            raise NotAnAnswer(Judgement("malformed", "status"))
        messages = [item for item in output if item.get("type") == "message"]
        parts = [part for message in messages for part in _objects(message, "content", may_lack=True)]
        kind = _kind(document, accepted_models)
    except NotAnAnswer as other:
        return other.judgement
    calls = [item for item in output if item.get("type") in ("function_call", "custom_tool_call")]
    details, usage = document.get("incomplete_details"), document.get("usage")
    reason = details.get("reason") if isinstance(details, dict) else None
    declined = reason == "content_filter" or any(part.get("type") == "refusal" for part in parts)
    return Judgement(
        kind,
        flags=_flags(cut=reason == "max_output_tokens", refused=declined),
        prompt_tokens=completion.count(usage, "input_tokens"),
        completion_tokens=completion.count(usage, "output_tokens"),
        cached_tokens=completion.count(_below(usage, "input_tokens_details"), "cached_tokens"),
        reported_cost=completion.cost(usage),
        message_sha256=completion.message_digest(
            "".join(_text(part.get("text")) for part in parts if part.get("type") == "output_text"),
            [[_text(item.get("call_id")), _text(item.get("name")), _said(item)] for item in calls],
        ),
    )


def judge_message(body: bytes, accepted_models: frozenset[str]) -> Judgement:
    """A message of the Anthropic API. Cached tokens count to the prompt's, as in the other APIs."""
    try:
        document = _document(body)
        content = _objects(document, "content")
        if document.get("type") != "message" or document.get("role") != "assistant":
            raise NotAnAnswer(Judgement("malformed", "no_message"))
        kind = _kind(document, accepted_models)
    except NotAnAnswer as other:
        return other.judgement
    calls = [part for part in content if part.get("type") == "tool_use"]
    usage, reason = document.get("usage"), document.get("stop_reason")
    fresh = completion.count(usage, "input_tokens")
    cached = [completion.count(usage, f"cache_{name}_input_tokens") or 0 for name in ("read", "creation")]
    return Judgement(
        kind,
        flags=_flags(cut=reason in ("max_tokens", "model_context_window_exceeded"), refused=reason == "refusal"),
        prompt_tokens=None if fresh is None else fresh + sum(cached),
        completion_tokens=completion.count(usage, "output_tokens"),
        cached_tokens=completion.count(usage, "cache_read_input_tokens"),
        reported_cost=completion.cost(usage),
        message_sha256=completion.message_digest(
            "".join(_text(part.get("text")) for part in content if part.get("type") == "text"),
            [[_text(part.get("id")), _text(part.get("name")), _written(part.get("input"))] for part in calls],
        ),
    )


def judge_embeddings(body: bytes, accepted_models: frozenset[str]) -> Judgement:
    """A list of vectors, each as numbers or as base64."""
    try:
        document = _document(body, size=completion.MAX_RESPONSE_BYTES, items=_VECTOR_ITEMS)
        data = _objects(document, "data")
        if not data or not all(isinstance(item.get("embedding"), (list, str)) for item in data):
            raise NotAnAnswer(Judgement("malformed", "no_vectors"))
        kind = _kind(document, accepted_models)
    except NotAnAnswer as other:
        return other.judgement
    return Judgement(
        "answer" if kind == "ok" else kind,
        prompt_tokens=completion.count(document.get("usage"), "prompt_tokens"),
    )


def judge_count(body: bytes, _accepted_models: frozenset[str]) -> Judgement:
    """A count of tokens. It names no model, and since nothing was generated it is no usage."""
    try:
        document = _document(body)
    except NotAnAnswer as other:
        return other.judgement
    counted = completion.count(document, "input_tokens") is not None
    return Judgement("answer") if counted else Judgement("malformed", "no_count")


def _document(
    body: bytes, size: int = completion.MAX_JUDGED_BYTES, items: int = completion.MAX_ITEMS
) -> dict[str, Any]:
    try:
        document = strict_json.load(body, size=size, depth=completion.MAX_DEPTH, items=items)
    except strict_json.JsonProblem as problem:
        raise NotAnAnswer(completion.unreadable(problem, body)) from None
    if not isinstance(document, dict):
        raise NotAnAnswer(Judgement("malformed", "not_an_object"))
    if document.get("error") is not None:
        raise NotAnAnswer(completion.failed(document["error"]))
    return document


def _kind(document: dict[str, Any], accepted_models: frozenset[str]) -> str:
    if not isinstance(document.get("model"), str):
        raise NotAnAnswer(Judgement("malformed", "no_model"))
    return "ok" if document["model"] in accepted_models else "wrong_model"


def _objects(document: dict[str, Any], name: str, *, may_lack: bool = False) -> list[dict[str, Any]]:
    items = document.get(name)
    if items is None and may_lack:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise NotAnAnswer(Judgement("malformed", f"no_{name}"))
    return items


def _flags(**found: bool) -> tuple[str, ...]:
    return tuple(name for name, present in found.items() if present)


def _below(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _said(call: dict[str, Any]) -> str:
    """What a call says: a function's arguments, a custom tool's text."""
    return _text(call.get("arguments")) or _text(call.get("input"))


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
