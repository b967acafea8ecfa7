"""What a 2xx body of chat completions is: a completion by the declared model, an error, or neither. Pure.

A completion is judged by what it is and not by a textbook's form: any id of a tool call, fields of a vendor's own,
content in parts, nothing but reasoning, nothing at all. Whatever else an endpoint says is malformed, with a code that
says in which way.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from . import complaints, strict_json

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
# What is larger is passed on, but no completion: it would not fit the declared tokens, nor, taken apart, the memory.
MAX_JUDGED_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32
MAX_ITEMS = 262_144
MAX_ID_BYTES = 4096
_MOST_TOKENS = 2**53
_MOST_DOLLARS = 9_000  # as pico-dollars still a number that every reader of JSON knows

_CUT = frozenset({"length", "max_tokens", "model_length"})
_REFUSED = frozenset({"content_filter", "refusal", "safety"})
_HTML = re.compile(rb"<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_EVENT = re.compile(rb"(?:data|event|id|retry)?:")
_JSON_PROBLEMS = {
    "size": "too_large",
    "depth": "nesting",
    "items": "nesting",
    "byte_order_mark": "encoding",
    "surrogate": "encoding",
    "duplicate_key": "duplicate_key",
}

# An assistant's text, and its calls as [id, name, arguments]; the id may be None, the arguments are text.
Spoken = tuple[str, list[list[Any]]]


@dataclass(frozen=True)
class Judgement:
    """`kind` is ok, wrong_model, malformed or upstream_error; the last two have a `code`.

    `flags` of a completion: cut (at the token limit), refused (by the model). `message_sha256` is the `message_digest`
    of what was said, `message` the assistant's message as it came and `spoken` what it says. `readable` is the body for
    an asker who knows content as text only, None where the body is that already. `said_status` is the status of an
    error inside a 2xx.
    `cached_tokens` are some of the prompt's, `reported_cost` is in millionths of a millionth of a US dollar.
    """

    kind: str
    code: str | None = None
    flags: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reported_cost: int | None = None
    message_sha256: str | None = None
    message: dict[str, Any] | None = None
    spoken: Spoken | None = None
    readable: bytes | None = None
    said_status: int | None = None


class NotSpoken(Exception):
    """This is no assistant's message; `code` is stable and says in which way."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def judge(body: bytes, accepted_models: frozenset[str]) -> Judgement:
    """Judge a 2xx body. The model that a completion names must be an accepted one: the alias, or a declared name."""
    try:
        document = strict_json.load(body, size=MAX_JUDGED_BYTES, depth=MAX_DEPTH, items=MAX_ITEMS)
    except strict_json.JsonProblem as problem:
        return unreadable(problem, body)
    if not isinstance(document, dict):
        return Judgement("malformed", "not_an_object")
    try:
        choice = _choice(document)
        error = document.get("error")
        if error is None and choice is not None and choice.get("finish_reason") == "error":
            error = choice.get("error") or "error"
        if error is not None:
            return failed(error)
        message = _message(choice)
        spoken = spoken_of(message)
    except NotSpoken as problem:
        return Judgement("malformed", problem.code)
    if not isinstance(document.get("model"), str):
        return Judgement("malformed", "no_model")
    usage, in_parts = document.get("usage"), isinstance(message.get("content"), list)
    return Judgement(
        "ok" if document["model"] in accepted_models else "wrong_model",
        flags=_flags((choice or {}).get("finish_reason"), message),
        prompt_tokens=count(usage, "prompt_tokens"),
        completion_tokens=count(usage, "completion_tokens"),
        cached_tokens=count(usage.get("prompt_tokens_details"), "cached_tokens") if isinstance(usage, dict) else None,
        reported_cost=cost(usage),
        message_sha256=message_digest(*spoken),
        message=message,
        spoken=spoken,
        readable=_with_text(document, message, spoken[0]) if in_parts else None,
    )


def message_digest(text: str, calls: list[list[Any]]) -> str:
    """SHA-256 of canonical `{"content", "tool_calls": [[id, name, arguments]]}`.

    The agent's trajectory keeps the message but not the body's bytes: a step is matched by this.
    """
    form = {"content": text, "tool_calls": calls}
    canonical = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def spoken_of(message: dict[str, Any]) -> Spoken:
    """What an assistant's message says. Raises NotSpoken."""
    if message.get("role") not in (None, "assistant"):
        raise NotSpoken("role")
    calls = message.get("tool_calls")
    if not isinstance(calls, (list, type(None))):
        raise NotSpoken("tool_calls")
    return _text(message.get("content")), [_call(call) for call in calls or []]


def unreadable(problem: strict_json.JsonProblem, body: bytes) -> Judgement:
    """What a body is that is no strict JSON."""
    return Judgement("malformed", _JSON_PROBLEMS.get(problem.code) or _other_text(body, problem.code))


def failed(error: Any) -> Judgement:
    """What an error means that came with a 2xx."""
    if complaints.is_context_overflow(error):
        return Judgement("upstream_error", "context_window", said_status=400)
    return Judgement("upstream_error", "error_in_success", said_status=complaints.status_of(error))


def _choice(document: dict[str, Any]) -> dict[str, Any] | None:
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def _message(choice: dict[str, Any] | None) -> dict[str, Any]:
    if choice is None:
        raise NotSpoken("no_choice")
    message = choice.get("message")
    if not isinstance(message, dict) or not message:
        raise NotSpoken("no_message")
    return message


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, (str, dict)) for part in content):
        raise NotSpoken("content")
    return "".join(part if isinstance(part, str) else _text_of_part(part) for part in content)


def _text_of_part(part: dict[str, Any]) -> str:
    """The text of a part that is text; other kinds (thinking, refusal, a vendor's own) have none."""
    text = part.get("text")
    return text if part.get("type") in ("text", "output_text", None) and isinstance(text, str) else ""


def _call(call: Any) -> list[Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise NotSpoken("tool_call")
    identifier, arguments = call.get("id"), function.get("arguments")
    if identifier is not None and not is_id(identifier):
        raise NotSpoken("tool_call_id")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments)  # as agents write out what some endpoints leave an object
    elif not isinstance(arguments, (str, type(None))):
        raise NotSpoken("tool_call")
    return [identifier, function["name"], arguments or ""]


def is_id(value: Any) -> bool:
    """Whether this can be the id of a tool call: any text, the empty one included, that is not too long to keep."""
    return isinstance(value, str) and len(value) <= MAX_ID_BYTES and len(value.encode("utf-8")) <= MAX_ID_BYTES


def _flags(finish_reason: Any, message: dict[str, Any]) -> tuple[str, ...]:
    reason = finish_reason.lower() if isinstance(finish_reason, str) else ""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    declined = bool(message.get("refusal")) or any(
        isinstance(part, dict) and part.get("type") == "refusal" for part in parts
    )
    found = {"cut": reason in _CUT, "refused": reason in _REFUSED or declined}
    return tuple(name for name, present in found.items() if present)


def _with_text(document: dict[str, Any], message: dict[str, Any], text: str) -> bytes:
    """The body with the text of the parts as content, for agents whose client knows no other.

    Thinking stands where such a client looks for it, unless something does already.
    """
    thinking = "".join(map(_thinking_of_part, message["content"]))
    readable = message | {"content": text}
    if thinking and message.get("reasoning_content") is None:
        readable["reasoning_content"] = thinking
    choices = [document["choices"][0] | {"message": readable}, *document["choices"][1:]]
    return json.dumps(document | {"choices": choices}).encode("ascii")


def _thinking_of_part(part: Any) -> str:
    if not isinstance(part, dict) or part.get("type") not in ("thinking", "reasoning"):
        return ""
    said = part.get(part["type"], part.get("text"))
    if isinstance(said, list):
        return "".join(_text_of_part(inner) for inner in said if isinstance(inner, dict))
    return said if isinstance(said, str) else ""


def _other_text(body: bytes, problem: str) -> str:
    """What the body is that is no JSON, or no UTF-8 at all."""
    text = body.strip()
    if not text:
        return "empty"
    if text.startswith(_COMPRESSED):
        return "compressed"
    if problem == "encoding":
        return problem
    if _EVENT.match(text):
        return "event_stream" if text.endswith(b"[DONE]") else "event_stream_cut"
    if _HTML.match(text):
        return "html"
    if text.startswith((b"{", b"[")):
        return "not_json" if text.endswith((b"}", b"]")) else "cut"
    return "text_before_json" if b"{" in text and text.endswith(b"}") else "not_json"


def count(usage: Any, name: str) -> int | None:
    """A count of tokens of a usage, None where it is not reported."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def cost(usage: Any) -> int | None:
    """A usage's `cost` (OpenRouter's, in US dollars) as whole pico-dollars, None where there is none that can be."""
    value = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST_DOLLARS:
        return None
    return int(Decimal(repr(value)) * 10**12)  # what the endpoint wrote, and not its nearest binary number
