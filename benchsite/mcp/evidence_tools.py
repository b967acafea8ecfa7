"""The tools that read evidence: by id, in bounded parts, with the hash checked, audited like a download."""

import codecs

from django.contrib.auth.models import User
from mcp_types import CallToolResult

from benchsite.mcp.answers import answer
from benchsite.mcp.arguments import EvidenceListArguments, EvidenceReadArguments
from evidence.register.streaming import artifact_for, artifacts_for, read_range
from evidence.serializers import mcp_evidence_document, mcp_evidence_part_document
from runs.services import access
from runs.services.refusals import BadInput
from runs.services.run_lookup import find_run


class BeyondEnd(BadInput):
    code = "evidence.beyond_end"


def evidence_list(user: User, given: EvidenceListArguments) -> CallToolResult:
    """The register of a run: every file for operators, the public ones for viewers."""
    access.require(user, access.VIEW)
    run = find_run(given.run)
    rows = list(artifacts_for(user, run).filter(pk__gt=given.cursor).order_by("pk")[: given.limit + 1])
    files = rows[: given.limit]
    return answer(mcp_evidence_document(run, files, files[-1].pk if len(rows) > len(files) else None))


def evidence_read(user: User, given: EvidenceReadArguments) -> CallToolResult:
    """At most 64 KiB of a file as text, proved to be what was registered."""
    artifact = artifact_for(user, given.file)
    if given.offset > artifact.size:
        raise BeyondEnd(f"The file has {artifact.size:,} bytes; give a smaller offset.")
    end = min(given.offset + given.length, artifact.size)
    data = read_range(user, artifact, given.offset, end)
    text, end = _whole_characters(data, given.offset, artifact.size)
    return answer(mcp_evidence_part_document(artifact, text, given.offset, end if end < artifact.size else None))


def _whole_characters(data: bytes, start: int, size: int) -> tuple[str, int]:
    """The text, and where the next part begins: a character that the end of a part cuts belongs to the next."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    last = start + len(data) >= size
    text = decoder.decode(data, last)
    held = b"" if last else decoder.getstate()[0]
    return text, start + len(data) - len(held)
