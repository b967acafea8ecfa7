"""The tool by which a client runs commands is the one that the script calls, in whichever API it asks."""

import json
from typing import Any

import pytest

from runs.scripted.apis import MESSAGES, RESPONSES, said_as
from runs.scripted.scripts import Step
from runs.scripted.server import completion

COMMAND = "ls /app"
BODY = completion("alias", Step("I look.", COMMAND), [{"role": "user", "content": "question"}])


def called(path: str, *tools: str) -> list[tuple[str, Any]]:
    """Names and arguments of the calls."""
    said = said_as(path, {"tools": [{"name": name} for name in tools]}, BODY)
    if path == MESSAGES:
        return [(part["name"], part["input"]) for part in said["content"] if part["type"] == "tool_use"]
    return [(item["name"], json.loads(item["arguments"])) for item in said["output"] if item["type"] == "function_call"]


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
@pytest.mark.parametrize(
    ("tool", "field", "value"),
    [
        ("bash", "command", COMMAND), ("Bash", "command", COMMAND), ("exec_command", "cmd", COMMAND),
        ("shell_command", "command", COMMAND), ("shell", "command", ["bash", "-c", COMMAND]),
    ],
)  # fmt: skip
def test_a_clients_own_tool_is_called(path: str, tool: str, field: str, value: Any) -> None:
    [(name, said)] = called(path, "Read", tool)
    assert (name, said[field]) == (tool, value)


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
def test_who_offers_none_gets_the_words_alone(path: str) -> None:
    assert called(path) == called(path, "Read") == []
