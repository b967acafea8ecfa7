"""A real client of the SDK that talks over stdio to a real `manage.py mcp` process."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.commands.schemas import validated

ROOT = Path(__file__).parents[2]
BOUND_S = 120.0


@dataclass(frozen=True)
class Answer:
    """What a tool answered."""

    document: dict[str, Any]
    text: str
    is_error: bool

    @property
    def code(self) -> str:
        return str(self.document["code"]) if self.is_error else ""


@dataclass(frozen=True)
class Session:
    portal: BlockingPortal
    client: Client

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        result = self.portal.call(self.client.call_tool, tool, arguments)
        [block] = result.content
        answer = Answer(result.structured_content, block.text, bool(result.is_error))
        assert json.loads(answer.text) == answer.document  # clients that only read text see the same
        validated(answer.document)
        return answer

    def ok(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = self.call(tool, **arguments)
        assert not answer.is_error, answer.document
        return answer.document

    def refused(self, tool: str, /, **arguments: Any) -> str:
        """The code of the refusal, which has a sentence and no traceback."""
        answer = self.call(tool, **arguments)
        assert answer.is_error, answer.document
        assert answer.document["schema"] == "benchsite.error/v1" and answer.document["sentence"]
        assert "Traceback" not in answer.text and "Error executing" not in answer.text
        return answer.code

    def tools(self) -> list[Any]:
        return list(self.portal.call(self.client.list_tools).tools)


@contextmanager
def session(user: str, environment: dict[str, str], log: Path) -> Iterator[Session]:
    """A connected client; the server's stderr is added to ``log``."""
    command = StdioServerParameters(
        command=sys.executable, args=[str(ROOT / "manage.py"), "mcp", "--user", user], env=environment
    )
    with log.open("a") as errors, start_blocking_portal() as portal:
        client = Client(stdio_client(command, errlog=errors), read_timeout_seconds=BOUND_S)
        with portal.wrap_async_context_manager(client) as connected:
            yield Session(portal, connected)
