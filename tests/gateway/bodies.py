"""Request and response bodies as mini-swe-agent 2.4.6 and an endpoint really send them."""

import json
from typing import Any

ALIAS = "alias"
MAX_TOKENS = 4096

BASH_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Execute a bash command",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The bash command to execute"}},
            "required": ["command"],
        },
    },
}


def request(**changes: Any) -> dict[str, Any]:
    """The agent's request after one step; `changes` replace or add top-level fields."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "bash", "arguments": '{"command": "ls"}'},
    }
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Please solve this issue: …"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": '{"returncode": 0}', "tool_call_id": "call_1"},
    ]
    body = {"model": ALIAS, "messages": messages, "max_tokens": MAX_TOKENS, "tools": [BASH_TOOL]}
    return body | changes


def encoded(**changes: Any) -> bytes:
    return json.dumps(request(**changes)).encode()


def completion(**changes: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    message = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    body = {
        "id": "x",
        "object": "chat.completion",
        "model": ALIAS,
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }
    return body | changes
