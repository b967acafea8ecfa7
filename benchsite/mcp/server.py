"""The MCP server: the official SDK over stdin and stdout; nothing else is ever written to stdout."""

from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from mcp.server import MCPServer
from mcp_types import CallToolResult
from mcp_types import Tool as Listed

from benchsite import __version__
from benchsite.lib.serializing import UNTRUSTED_NOTICE, Document, serializes
from benchsite.mcp.tools import TOOLS, call_tool

_INSTRUCTIONS = (
    "Runs isolated evaluations. Call preview, show a person what it says, then start with the preview's id and "
    f"spec_sha256; follow with status. {UNTRUSTED_NOTICE}"
)


class SiteServer(MCPServer[Any]):
    """The site's tools for one user. Its calls are carried out one after another, in one thread with connections
    of its own; the protocol goes on meanwhile."""

    def __init__(self, user: User) -> None:
        super().__init__(
            name="benchsite", title="benchsite", version=__version__, instructions=_INSTRUCTIONS, subscriptions=False
        )
        self._user_pk = user.pk

    async def list_tools(self) -> list[Listed]:
        return [tool.listed() for tool in TOOLS]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> CallToolResult:
        return await sync_to_async(call_tool, thread_sensitive=True)(self._user_pk, name, arguments)


@serializes("benchsite.mcp-tools/v1")
def tools_document() -> Document:
    """Every tool as clients see it, in a stable order."""
    listed = sorted((tool.listed() for tool in TOOLS), key=lambda tool: tool.name)
    documents = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in listed]
    return {"tools": documents}
