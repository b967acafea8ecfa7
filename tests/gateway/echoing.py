"""What litellm 1.75.8 under mini-swe-agent 2.4.6 makes of an assistant's message when it sends it back; measured."""

import json
import re
from typing import Any

_THOUGHTS = re.compile(r"<(?:think|thinking)>(.*?)</(?:think|thinking)>(.*)", re.DOTALL)
_KEPT = ("thinking_blocks", "annotations")


def echoed(message: dict[str, Any], made_up_id: str = "made-up-by-the-client") -> dict[str, Any]:
    """The assistant's message as the agent's next request holds it; content must be text by then."""
    content, reasoning = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
    thoughts = _THOUGHTS.match(content) if isinstance(content, str) and reasoning is None else None
    if thoughts is not None:
        reasoning, content = thoughts[1], thoughts[2]
    echo: dict[str, Any] = {"role": "assistant"}
    if content is not None:
        echo["content"] = content
    if message.get("tool_calls"):
        echo["tool_calls"] = [_call(call, made_up_id) for call in message["tool_calls"]]
    if reasoning is not None:
        echo["reasoning_content"] = reasoning
    return echo | {name: message[name] for name in _KEPT if message.get(name) is not None}


def results(echo: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of the echoed message's calls."""
    calls = echo.get("tool_calls", [])
    return [{"role": "tool", "content": "done", "tool_call_id": call["id"]} for call in calls]


def _call(call: dict[str, Any], made_up_id: str) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    written = json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""
    own = {name: value for name, value in call.items() if name not in ("id", "type", "function")}
    identifier = made_up_id if call.get("id") is None else call["id"]
    return own | {
        "function": {"arguments": written, "name": function["name"]},
        "id": identifier,
        "type": "function",
    }
