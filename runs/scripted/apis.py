"""The scripted endpoint in other APIs: a script plays chat completions, and here its answers are said as each API says
them, whole or as a stream. Pure.

A script calls a tool named `bash`; a client that runs commands by a tool of another name has that one called, and who
offers none gets the words alone.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

CHAT, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
PATHS = (CHAT, RESPONSES, EMBEDDINGS, MESSAGES, COUNT)
_PIECE = 12
_DIMENSIONS = 8
_STOP_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def as_chat(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The request as one of chat completions. What is no list of objects stays what it is, for the script to refuse."""
    match path:
        case "/v1/messages" | "/v1/messages/count_tokens":
            return {"model": request.get("model"), "messages": request.get("messages")}
        case "/v1/responses" | "/v1/embeddings":
            given = request.get("input")
            is_text = isinstance(given, str) or path == EMBEDDINGS
            items = [{"role": "user", "content": given}] if is_text else given
            return {"model": request.get("model"), "messages": items if isinstance(items, list) else [None]}
        case _:
            return request


def said_as(path: str, request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The script's answer as the API's answer; an error stays one, and what is no completion does too."""
    if "error" in body:
        return {"type": "error", **body} if path in (MESSAGES, COUNT) else body
    if path == CHAT or "choices" not in body:
        return body
    usage = body["usage"]
    match path:
        case "/v1/embeddings":
            return _embeddings(request, body)
        case "/v1/messages/count_tokens":
            return {"input_tokens": usage["prompt_tokens"]}
        case "/v1/messages":
            return _message(request, body)
        case _:
            return _response(request, body)


def streamed(path: str, answer: dict[str, Any], include_usage: bool = True) -> Iterator[bytes]:
    """The API's answer as the events of a stream."""
    match path:
        case "/v1/chat/completions":
            yield from _chat_events(answer, include_usage)
        case "/v1/messages":
            yield from _message_events(answer)
        case _:
            yield from _response_events(answer)


# The tools by which clients run a command, and how each is told it: mini-swe-agent's, Claude Code's, Codex's.
_RUNNERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "bash": lambda command: {"command": command},
    "Bash": lambda command: {"command": command, "description": "As the script says"},
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
}


def _runner(request: dict[str, Any]) -> str | None:
    """The first of them that the request offers."""
    tools = request.get("tools")
    offered = {tool.get("name") for tool in tools if isinstance(tool, dict)} if isinstance(tools, list) else set()
    return next((name for name in _RUNNERS if name in offered), None)


def _spoken(request: dict[str, Any], body: dict[str, Any]) -> tuple[str, list[dict[str, Any]], str]:
    """Words, calls and the reason to stop."""
    choice = body["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls") or []
    runner = _runner(request)
    if calls and runner is None:
        return message["content"], [], "stop"
    return message["content"] or "", [_called(runner, call) for call in calls if runner], choice["finish_reason"]


def _called(runner: str, call: dict[str, Any]) -> dict[str, Any]:
    """The script's call as one of that tool; a call of another name than the script's own stays what it is."""
    if call["function"]["name"] != "bash":
        return call
    said = _RUNNERS[runner](json.loads(call["function"]["arguments"])["command"])
    return {**call, "function": {"name": runner, "arguments": json.dumps(said)}}


def _embeddings(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    given = request.get("input")
    texts = given if isinstance(given, list) else [given]
    vectors: list[Any] = [[float((len(str(text)) + number) % 7) for number in range(_DIMENSIONS)] for text in texts]
    if request.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{_DIMENSIONS}f", *vector)).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    tokens = body["usage"]["prompt_tokens"]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _message(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    words, calls, reason = _spoken(request, body)
    content: list[dict[str, Any]] = [{"type": "text", "text": words}]
    for call in calls:
        said = json.loads(call["function"]["arguments"])
        content.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": said})
    usage = {"input_tokens": body["usage"]["prompt_tokens"], "output_tokens": body["usage"]["completion_tokens"]}
    return {
        "id": body["id"],
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": _STOP_REASONS.get(reason, "end_turn"),
        "stop_sequence": None,
        "usage": usage,
    }


def _response(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    words, calls, reason = _spoken(request, body)
    text = {"type": "output_text", "text": words, "annotations": []}
    output: list[dict[str, Any]] = [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    ]
    for call in calls:
        function = call["function"]
        item = {"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], "status": "completed"}
        output.append({**item, "name": function["name"], "arguments": function["arguments"]})
    prompt, said = body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]
    cut = reason == "length"
    return {
        "id": body["id"],
        "object": "response",
        "created_at": body["created"],
        "model": body["model"],
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "max_output_tokens": request.get("max_output_tokens"),
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + said,
        },
    }


def _chat_events(answer: dict[str, Any], include_usage: bool) -> Iterator[bytes]:
    shared = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = answer["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls") or []):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
        for piece in _pieces(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for delta in deltas:
        yield _event({**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if include_usage:
        yield _event({**shared, "choices": [], "usage": answer["usage"]})
    yield b"data: [DONE]\n\n"


def _message_events(answer: dict[str, Any]) -> Iterator[bytes]:
    begun = {"content": [], "stop_reason": None, "usage": answer["usage"] | {"output_tokens": 1}}
    yield _named({"type": "message_start", "message": answer | begun})
    yield _named({"type": "ping"})
    for index, block in enumerate(answer["content"]):
        is_text = block["type"] == "text"
        empty: dict[str, Any] = {"text": ""} if is_text else {"input": {}}
        yield _named({"type": "content_block_start", "index": index, "content_block": block | empty})
        for piece in _pieces(block["text"] if is_text else json.dumps(block["input"])):
            words = {"type": "text_delta", "text": piece}
            delta = words if is_text else {"type": "input_json_delta", "partial_json": piece}
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": answer["usage"]["output_tokens"]}
    yield _named({"type": "message_delta", "delta": ending, "usage": usage})
    yield _named({"type": "message_stop"})


def _response_events(answer: dict[str, Any]) -> Iterator[bytes]:
    events: list[dict[str, Any]] = []
    begun = answer | {"status": "in_progress", "output": [], "usage": None}
    events += [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    for index, item in enumerate(answer["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        started: dict[str, Any] = item | {"status": "in_progress"}
        started["content" if item["type"] == "message" else "arguments"] = [] if item["type"] == "message" else ""
        events.append({"type": "response.output_item.added", "output_index": index, "item": started})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            part = place | {"content_index": 0}
            empty = item["content"][0] | {"text": ""}
            events.append({"type": "response.content_part.added", **part, "part": empty})
            events += [
                {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
                for piece in _pieces(text)
            ]
            events.append({"type": "response.output_text.done", **part, "text": text, "logprobs": []})
            events.append({"type": "response.content_part.done", **part, "part": item["content"][0]})
        else:
            deltas = _pieces(item["arguments"])
            events += [{"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in deltas]
            done = {"arguments": item["arguments"], "name": item["name"]}
            events.append({"type": "response.function_call_arguments.done", **place, **done})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{answer['status']}", "response": answer})
    for number, event in enumerate(events):
        yield _named(event | {"sequence_number": number})


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _named(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\n".encode() + _event(data)
