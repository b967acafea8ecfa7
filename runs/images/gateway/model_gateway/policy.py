"""What may go to the endpoint: a pure function from a body's bytes to the bytes to send, or to a refusal.

The allow-list follows what mini-swe-agent 2.4.6 with litellm really sends: model, messages, max_tokens and
tools at the top. An assistant's message that the endpoint itself said goes back to it as it was said; of one that it
did not say only the allowed parts go out.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import strict_json
from .completion import is_id
from .said import Echoes, NotKept, Said

MAX_BODY_BYTES = 4 * 1024 * 1024
# A request of the agent is 7 levels deep, and what the endpoint said in it no deeper than a completion may be. 32 steps
# hold some 700 items, with eight tool calls a step 4,000.
MAX_DEPTH = 32
MAX_ITEMS = 65_536
MAX_MESSAGES = 8_192
MAX_TOOLS = 16

PROBLEM_CODES = {
    "size": "body.size",
    "depth": "body.depth",
    "items": "body.items",
    "duplicate_key": "body.duplicate_key",
    "encoding": "body.utf8",
    "surrogate": "body.utf8",
}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ADDRESS = re.compile(r"[:/#.]")
_ANCHOR = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MAX_NAME = 4096


class Refused(Exception):
    """A body that is not forwarded; `code` is stable and holds nothing of the body."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Declared:
    """What the spec declares about every request of a run; `sampling` holds the controls that are fixed."""

    model: str
    max_completion_tokens: int
    sampling: Mapping[str, int | float] = field(default_factory=dict)


def screen(body: bytes, declared: Declared, said: Said | None = None) -> bytes:
    """The body to send upstream, built anew from allowed parts and from what the endpoint `said`. Raises Refused."""
    try:
        document = strict_json.load(body, size=MAX_BODY_BYTES, depth=MAX_DEPTH, items=MAX_ITEMS)
    except strict_json.JsonProblem as problem:
        raise Refused(PROBLEM_CODES.get(problem.code, "body.json")) from None
    request = _request(document, declared, (said or Said()).echoes())
    return json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def own_fault(code: str, said: Said) -> str | None:
    """The code of a refusal of what the endpoint itself said: its words alone are more than a request may hold.

    None when the refusal is the agent's matter.
    """
    beyond = {
        "body.size": said.bytes > MAX_BODY_BYTES,
        "body.items": said.items > MAX_ITEMS,
        "body.messages": said.messages > MAX_MESSAGES,
        "body.not_kept": True,
    }
    return f"endpoint_words.{code.removeprefix('body.')}" if beyond.get(code) else None


def _request(document: Any, declared: Declared, echoes: Echoes) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise Refused("body.not_an_object")
    if not set(document) <= _ALLOWED:
        raise Refused("body.unknown_field")
    if document.get("model") != declared.model:
        raise Refused("body.model")
    request = {"model": declared.model, "messages": _messages(document.get("messages"), echoes)}
    request |= _token_limit(document, declared.max_completion_tokens)
    for name, check in _OPTIONAL.items():
        if name in document:
            request[name] = check(document[name])
    for name, fixed in declared.sampling.items():
        # After its own check, so that true does not pass for 1.
        if name not in request or request[name] != fixed:
            raise Refused(f"body.{name}")
    return request


def _token_limit(document: dict[str, Any], declared: int) -> dict[str, int]:
    """The declared limit under the one of its two names that the agent gave it; newer models know the second only."""
    given = [name for name in ("max_tokens", "max_completion_tokens") if name in document]
    if len(given) != 1 or type(document[given[0]]) is not int or document[given[0]] != declared:
        raise Refused("body.max_tokens")
    return {given[0]: declared}


def _messages(value: Any, echoes: Echoes) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_MESSAGES:
        raise Refused("body.messages")
    return [_message(message, echoes) for message in value]


def _message(value: Any, echoes: Echoes) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("body.message")
    match value.get("role"):
        case "system" | "user":
            return _closed(value, {"role", "content"})
        case "tool":
            message = _closed(value, {"role", "content", "tool_call_id"})
            return message | {"tool_call_id": _call_id(value.get("tool_call_id"))}
        case "assistant":
            try:
                return echoes.own(value) or _assistant(value)
            except NotKept:
                raise Refused("body.not_kept") from None
        case _:
            raise Refused("body.role")


def _closed(value: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    if set(value) != keys:
        raise Refused("body.message_field")
    return {"role": value["role"], "content": _content(value["content"])}


def _assistant(value: dict[str, Any]) -> dict[str, Any]:
    """What the agent says that the model said: other parts are left out, not refused."""
    message: dict[str, Any] = {"role": "assistant"}
    content, calls, reasoning = (value.get(name) for name in ("content", "tool_calls", "reasoning_content"))
    message["content"] = None if content is None else _content(content)
    if calls is not None:
        message["tool_calls"] = [_call(call) for call in _list(calls, "body.tool_calls")]
    if reasoning is not None:
        message["reasoning_content"] = _text(reasoning, "body.reasoning_content")
    if content is None and not calls:
        raise Refused("body.empty_message")
    return message


def _content(value: Any) -> str | list[dict[str, str]]:
    if isinstance(value, str):
        return value
    parts = _list(value, "body.content")
    return [_text_part(part) for part in parts]


def _text_part(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or set(value) != {"type", "text"} or value["type"] != "text":
        raise Refused("body.content_part")
    return {"type": "text", "text": _text(value["text"], "body.content_part")}


def _call(value: Any) -> dict[str, Any]:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict) or value.get("type") != "function":
        raise Refused("body.tool_call")
    return {
        "id": _call_id(value.get("id")),
        "type": "function",
        "function": {
            "name": _called(function.get("name")),
            "arguments": _text(function.get("arguments"), "body.tool_call"),
        },
    }


def _call_id(value: Any) -> str:
    if not is_id(value):
        raise Refused("body.name")
    return str(value)


def _called(value: Any) -> str:
    """The name in a past call, which a model may have made up: text like any other, and no tool that is declared."""
    if not isinstance(value, str) or len(value) > _MAX_NAME:
        raise Refused("body.name")
    return value


def _tools(value: Any) -> list[dict[str, Any]]:
    tools = _list(value, "body.tools")
    if len(tools) > MAX_TOOLS:
        raise Refused("body.tools")
    return [_tool(tool) for tool in tools]


def _tool(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != {"type", "function"} or value["type"] != "function":
        raise Refused("body.tool_type")
    function = value["function"]
    if not isinstance(function, dict) or not set(function) <= {"name", "description", "parameters", "strict"}:
        raise Refused("body.tool")
    tool: dict[str, Any] = {"name": _matching(_TOOL_NAME, function.get("name"))}
    if "description" in function:
        tool["description"] = _text(function["description"], "body.tool")
    if "parameters" in function:
        tool["parameters"] = _schema(function["parameters"])
    if "strict" in function:
        tool["strict"] = _boolean(function["strict"])
    return {"type": "function", "function": tool}


def _schema(value: Any) -> Any:
    """A JSON schema as it is, but without anything that an endpoint might fetch, or resolve against another place."""
    if not isinstance(value, dict):
        raise Refused("body.tool")
    pending: list[Any] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if not all(_stays(key, below) for key, below in node.items()):
                raise Refused("body.tool_reference")
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return value


def _stays(key: str, value: Any) -> bool:
    """Whether a member of a schema leads nowhere else. Of the words with a dollar only those are known that can be held
    to that: a dialect, an identity or a vocabulary is always an address, and `id` is one since draft 4."""
    if key == "id":
        return not isinstance(value, str) or not _ADDRESS.search(value)
    if not key.startswith("$"):
        return True
    match key:
        case "$ref" | "$dynamicRef" | "$recursiveRef":
            return isinstance(value, str) and value.startswith("#")
        case "$anchor" | "$dynamicAnchor":
            return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None
        case "$recursiveAnchor":
            return isinstance(value, bool)
        case "$defs":
            return isinstance(value, dict)
        case "$comment":
            return isinstance(value, str)
        case _:
            return False


def _tool_choice(value: Any) -> Any:
    if value in ("auto", "none", "required"):
        return value
    if not isinstance(value, dict) or set(value) != {"type", "function"} or value["type"] != "function":
        raise Refused("body.tool_choice")
    function = value["function"]
    if not isinstance(function, dict) or set(function) != {"name"}:
        raise Refused("body.tool_choice")
    return {"type": "function", "function": {"name": _matching(_TOOL_NAME, function["name"])}}


def _one(value: Any) -> int:
    if type(value) is not int or value != 1:
        raise Refused("body.n")
    return 1


def _no_stream(value: Any) -> bool:
    if value is not False:
        raise Refused("body.stream")
    return False


def _number(value: Any) -> int | float:
    if type(value) not in (int, float) or not 0 <= value <= 2:
        raise Refused("body.sampling")
    return value  # type: ignore[no-any-return]


def _seed(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise Refused("body.sampling")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused("body.boolean")
    return value


def _text(value: Any, code: str) -> str:
    if not isinstance(value, str):
        raise Refused(code)
    return value


def _list(value: Any, code: str) -> list[Any]:
    if not isinstance(value, list):
        raise Refused(code)
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Refused("body.name")
    return value


_OPTIONAL: dict[str, Callable[[Any], Any]] = {
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _boolean,
    "temperature": _number,
    "top_p": _number,
    "seed": _seed,
    "n": _one,
    "stream": _no_stream,
}
_ALLOWED = {"model", "messages", "max_tokens", "max_completion_tokens", *_OPTIONAL}
