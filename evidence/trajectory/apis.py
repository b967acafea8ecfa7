"""Requests and answers of each API in the one form in which a conversation is told: that of chat completions. Pure.

Only for reading: what is held against the ledger are the bytes, and nothing here raises for what they are. A stream is
put together as the gateway does it. Calls and results keep their ids, so that results stand with their answer.
"""

import json
from collections.abc import Iterator
from typing import Any

from evidence.reading.proofs import at
from evidence.trajectory.steps import parse_entry
from evidence.trajectory.text import plain
from runs.images.gateway.model_gateway.apis import APIS
from runs.images.gateway.model_gateway.completion import MAX_JUDGED_BYTES
from runs.images.gateway.model_gateway.sse import EventReader, EventTooLarge
from runs.images.gateway.model_gateway.streams import Broken

CHAT, RESPONSES, MESSAGES = "chat-completions", "responses", "messages"
# Of all streams of a trial: what an endpoint sends as millions of empty events is shown as it came.
MOST_EVENTS = 400_000
_CALLS = {"function_call", "custom_tool_call"}

type Document = dict[str, Any]


def read_request(api: str | None, data: bytes) -> tuple[Document, list[Any]] | None:
    """The settings of a request and its messages; None when it is no conversation (vectors, a count of tokens)."""
    request = document_of(data)
    if request is None:
        return None
    match api or CHAT:
        case "chat-completions":
            messages = request.pop("messages", None)
        case "messages":
            messages = _of_messages(request.pop("system", None), request.pop("messages", None))
        case "responses":
            messages = _of_input(request.pop("instructions", None), request.pop("input", None))
        case _:
            return None
    return (request, messages) if isinstance(messages, list) else None


class Answers:
    """Reads the answers of one trial."""

    def __init__(self) -> None:
        self._events = MOST_EVENTS

    def read(self, api: str | None, data: bytes) -> Document | None:
        """An answer as a chat completion, a stream as far as it came; None when it is none."""
        document = document_of(data) or self._put_together(api or CHAT, data)
        if document is None:
            return None
        match api or CHAT:
            case "messages":
                return _completion_of_message(document)
            case "responses":
                return _completion_of_response(document)
            case "chat-completions":
                return document
        return None

    def _put_together(self, api: str, data: bytes) -> Document | None:
        kind = APIS[api].assembly if api in APIS else None
        if kind is None or len(data) > MAX_JUDGED_BYTES:
            return None
        assembly, reader = kind(), EventReader(MAX_JUDGED_BYTES)
        try:
            for block in (*reader.feed(data), *reader.finish()):
                if block.event is None:
                    continue
                self._events -= 1
                if self._events < 0:
                    return None
                assembly.add(block.event)
            return document_of(assembly.body())
        except (EventTooLarge, Broken):
            return None


def document_of(data: bytes) -> Document | None:
    """The JSON object of these bytes, None when they are none."""
    try:
        document = parse_entry(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _of_messages(system: Any, messages: Any) -> list[Any] | None:
    """Messages of the Anthropic API; the results in a message of the user are messages of their own."""
    if not isinstance(messages, list):
        return None
    found: list[Any] = [] if system is None else [{"role": "system", "content": system}]
    for message in messages:
        if not isinstance(message, dict):
            found.append(message)
        elif message.get("role") == "assistant":
            found.append(_said(_parts(message.get("content"))))
        else:
            found += _of_user(message)
    return found


def _of_user(message: Document) -> Iterator[Document]:
    content = message.get("content")
    rest = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and part.get("type") == "tool_result":
            yield {"role": "tool", "tool_call_id": part.get("tool_use_id"), "content": part.get("content")}
        else:
            rest.append(part)
    if rest or not content:
        yield {"role": message.get("role"), "content": rest if isinstance(content, list) else content}


def _said(parts: list[Document]) -> Document:
    """What the model says in parts of the Anthropic API."""
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    thoughts = [part["thinking"] for part in parts if isinstance(part.get("thinking"), str)]
    calls = [
        _call(part.get("id"), part.get("name"), json.dumps(part.get("input"), sort_keys=True, separators=(",", ":")))
        for part in parts
        if part.get("type") == "tool_use"
    ]
    return _message("".join(texts), calls, "\n".join(thoughts))


def _of_input(instructions: Any, given: Any) -> list[Any] | None:
    """Items of the Responses API; what the model said in one turn is one message."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        return None
    found: list[Any] = [] if instructions is None else [{"role": "system", "content": instructions}]
    turn: list[Document] = []
    for item in given:
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind in (_CALLS | {"reasoning"}) or (kind == "message" and item.get("role") == "assistant"):
            turn.append(item)
            continue
        if turn:
            found.append(_spoken(turn))
            turn = []
        if kind in ("function_call_output", "custom_tool_call_output"):
            found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        else:
            found.append(item)
    return [*found, _spoken(turn)] if turn else found


def _spoken(items: list[Document]) -> Document:
    """What the model says in items of the Responses API."""
    parts = [part for item in items if item.get("type", "message") == "message" for part in _parts(item.get("content"))]
    thoughts = [plain(item.get("summary") or item.get("content")) for item in items if item.get("type") == "reasoning"]
    calls = [
        _call(item.get("call_id"), item.get("name"), item.get("arguments") or item.get("input") or "")
        for item in items
        if item.get("type") in _CALLS
    ]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    refusals = [part["refusal"] for part in parts if isinstance(part.get("refusal"), str)]
    message = _message("".join(texts), calls, "\n".join(thoughts))
    return message | {"refusal": "".join(refusals)} if refusals else message


def _completion_of_message(document: Document) -> Document | None:
    if not isinstance(document.get("content"), list):
        return None
    message = _said(_parts(document["content"]))
    ends = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "content_filter"}
    return _completion(
        document, message, ends.get(str(document.get("stop_reason"))), at(document, "usage", "cache_read_input_tokens")
    )


def _completion_of_response(document: Document) -> Document | None:
    if not isinstance(document.get("output"), list):
        return None
    message = _spoken([item for item in document["output"] if isinstance(item, dict)])
    ends = {"max_output_tokens": "length", "content_filter": "content_filter"}
    cached = at(document, "usage", "input_tokens_details", "cached_tokens")
    return _completion(document, message, ends.get(str(at(document, "incomplete_details", "reason"))), cached)


def _completion(document: Document, message: Document, finish_reason: str | None, cached: Any) -> Document:
    return {
        "model": document.get("model"),
        "choices": [{"message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens_details": {"cached_tokens": cached}},
    }


def _message(text: str, calls: list[Document], thoughts: str) -> Document:
    message: Document = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    return message | {"reasoning": thoughts} if thoughts else message


def _call(identifier: Any, name: Any, arguments: Any) -> Document:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def _parts(content: Any) -> list[Document]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
