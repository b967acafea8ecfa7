"""Which tools read evidence? From the register, by id, in bounded parts, hash checked, audited like a download."""

import codecs
from typing import Any

from django.contrib.auth.models import User
from mcp_types import CallToolResult

from benchsite.mcp.answers import NOTICE, answer
from benchsite.mcp.arguments import EvidenceListArguments, EvidenceReadArguments
from evidence import store
from evidence.kinds import TITLES
from evidence.models import Artifact
from runs import access, audit
from runs.management.output import run_by_key
from runs.models import AuditKind
from runs.refusals import BadInput


class NoSuchFile(BadInput):
    code = "evidence.unknown"
    sentence = "There is no such file in the register; evidence_list names those of a run."


class NothingToRead(BadInput):
    code = "evidence.nothing_kept"


class BeyondEnd(BadInput):
    code = "evidence.beyond_end"


class StorageLost(BadInput):
    code = "evidence.missing"
    sentence = "The storage does not hold this file any more. Restore it from a backup; manage.py audit names all."


def evidence_list(user: User, given: EvidenceListArguments) -> CallToolResult:
    """The register of a run: every file for operators, the public ones for viewers."""
    access.require(user, access.VIEW)
    run = run_by_key(given.run)
    found = Artifact.objects.filter(run=run, pk__gt=given.cursor).order_by("pk")
    if not access.may(user, access.READ_PRIVATE):
        found = found.filter(public=True)
    rows = list(found[: given.limit + 1])
    files = rows[: given.limit]
    document = {
        "run": run.key,
        "files": [_file(row) for row in files],
        "next_cursor": files[-1].pk if len(rows) > len(files) else None,
        "notice": NOTICE,
    }
    return answer("benchsite.mcp-evidence/v1", document)


def evidence_read(user: User, given: EvidenceReadArguments) -> CallToolResult:
    """At most 64 KiB of a file as text, after the whole file was hashed again."""
    artifact = _artifact(user, given.file)
    if given.offset > artifact.size:
        raise BeyondEnd(f"The file has {artifact.size:,} bytes; give a smaller offset.")
    end = min(given.offset + given.length, artifact.size)
    audit.record(
        AuditKind.DOWNLOAD,
        user=user,
        run_id=artifact.run_id,
        subject=artifact.path,
        detail={"sha256": artifact.sha256, "bytes": end - given.offset, "offset": given.offset, "by": "mcp"},
    )
    text, end = _whole_characters(_bytes(artifact, given.offset, end), given.offset, artifact.size)
    document = {
        **_file(artifact),
        "run": artifact.run.key,
        "offset": given.offset,
        "next_offset": end if end < artifact.size else None,
        "notice": NOTICE,
        "untrusted_text": text,
    }
    return answer("benchsite.mcp-evidence-part/v1", document)


def _artifact(user: User, key: str) -> Artifact:
    access.require(user, access.VIEW)
    found = Artifact.objects.select_related("run").filter(key=key).first()
    if found is None:
        raise NoSuchFile
    if not found.public:
        access.require(user, access.READ_PRIVATE)
    if not found.readable:
        raise NothingToRead(f"Nothing of this file can be read: {found.get_state_display().lower()}.")
    return found


def _bytes(artifact: Artifact, start: int, end: int) -> bytes:
    try:
        return b"".join(store.range_chunks(artifact, start, end))
    except store.NotReadable as error:
        raise NothingToRead(f"Nothing of this file can be read: {error.state}.") from error
    except OSError as error:
        raise StorageLost from error


def _whole_characters(data: bytes, start: int, size: int) -> tuple[str, int]:
    """The text, and where the next part begins: a character that the end of a part cuts belongs to the next."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    last = start + len(data) >= size
    text = decoder.decode(data, last)
    held = b"" if last else decoder.getstate()[0]
    return text, start + len(data) - len(held)


def _file(row: Artifact) -> dict[str, Any]:
    return {
        "file": row.key,
        "trial": row.trial,
        "kind": row.kind,
        "title": TITLES.get(row.kind, "Other"),
        "untrusted_path": row.path,
        "state": row.state,
        "readable": row.readable,
        "public": row.public,
        "size": row.size,
        "sha256": row.sha256 or None,
        "redactions": row.redactions,
        "note": row.note,
    }
