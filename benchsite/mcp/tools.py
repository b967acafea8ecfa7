"""The list of tools, and the call of one: every failure becomes an answer."""

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError, close_old_connections
from mcp_types import CallToolResult, ToolAnnotations
from mcp_types import Tool as Listed

from benchsite.lib import logs
from benchsite.lib.closed import Closed
from benchsite.lib.serializing import Exit, error_document
from benchsite.mcp import acts, arguments
from benchsite.mcp.answers import REFUSED, failure, refusal

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. ``changes`` says that it does more than read, ``ends`` that what it ends cannot be taken up again,
    ``repeatable`` that calling it again adds nothing."""

    name: str
    title: str
    description: str
    arguments: type[Closed]
    act: Callable[[User, Any], CallToolResult]
    changes: bool = False
    ends: bool = False
    repeatable: bool = True

    def listed(self) -> Listed:
        """As clients see it."""
        hints = ToolAnnotations(
            title=self.title,
            read_only_hint=not self.changes,
            destructive_hint=self.ends,
            idempotent_hint=self.repeatable,
            open_world_hint=False,
        )
        schema = self.arguments.model_json_schema()
        return Listed(
            name=self.name, title=self.title, description=self.description, input_schema=schema, annotations=hints
        )


TOOLS = (
    Tool(
        "preview", "Preview a run",
        "Resolve exactly what a run would execute and check everything that can be checked. Starts nothing. "
        "Gives the preview's id, its spec with spec_sha256, all checks, and whether one of them blocks.",
        arguments.PreviewArguments, acts.preview, changes=True, repeatable=False,
    ),
    Tool(
        "start", "Start a previewed run",
        "Start what a preview of yours showed: give its id and its spec_sha256. Refused when anything changed since. "
        "The same preview twice gives the same run.",
        arguments.StartArguments, acts.start, changes=True,
    ),
    Tool(
        "status", "Status of runs",
        "One run with counts, verdict, cleanup and trials, or the newest runs.",
        arguments.StatusArguments, acts.status,
    ),
    Tool(
        "logs", "Log of a run",
        "A run's log lines from a cursor on. Only for roles that read private evidence.",
        arguments.LogsArguments, acts.logs,
    ),
    Tool(
        "cancel", "Cancel a run",
        "Ask a run to end. Calling it twice is harmless; a run that was cancelled is never resumed.",
        arguments.RunArguments, acts.cancel, changes=True, ends=True,
    ),
    Tool(
        "cleanup", "Retry a cleanup",
        "Ask the worker of a run that has ended to remove what the run left behind. Runs nothing, touches no evidence.",
        arguments.RunArguments, acts.cleanup, changes=True,
    ),
    Tool(
        "evidence_list", "List evidence",
        "The files of a run with size, SHA-256 and state.",
        arguments.EvidenceListArguments, acts.evidence_list,
    ),
    Tool(
        "evidence_read", "Read evidence",
        "At most 64 KiB of one file as text; its hash is checked and the read is audited.",
        arguments.EvidenceReadArguments, acts.evidence_read,
    ),
)  # fmt: skip
_BY_NAME = {tool.name: tool for tool in TOOLS}


def call_tool(user_pk: int, name: str, given: dict[str, Any]) -> CallToolResult:
    """Call the tool ``name`` for that user, as they are now. Every failure is an answer; nothing is raised.

    Long-lived processes meet a database that was restarted: connections are looked at before each call.
    """
    request_id = uuid.uuid4().hex
    with logs.about(request_id=request_id, tool=name[:64]):
        close_old_connections()
        try:
            return _call(user_pk, name, given)
        except REFUSED as error:
            log.info("refused: %s", getattr(error, "code", "access.refused"))
            return refusal(error)
        except (DatabaseError, InterfaceError):
            log.exception("the database cannot be used")
            sentence = "The database cannot be used at present. Try again later."
            return failure(error_document("database.unusable", sentence, Exit.ERROR))
        except Exception:  # its text could hold anything; it stays in the log
            log.exception("a tool failed")
            sentence = "The tool failed here. The site's log says why, under this request id."
            return failure(error_document("mcp.failed", sentence, Exit.ERROR, request_id=request_id))
        finally:
            close_old_connections()


def _call(user_pk: int, name: str, given: dict[str, Any]) -> CallToolResult:
    user = User.objects.filter(pk=user_pk, is_active=True).first()
    if user is None:
        sentence = "The account that these tools act for is no longer active."
        return failure(error_document("mcp.user_gone", sentence, Exit.BAD_INPUT))
    tool = _BY_NAME.get(name)
    if tool is None:
        sentence = f"There is no such tool; there are: {', '.join(_BY_NAME)}."
        return failure(error_document("mcp.unknown_tool", sentence, Exit.BAD_INPUT))
    result = tool.act(user, arguments.read(tool.arguments, given))
    log.info("done")
    return result
