"""What the tools do: each requires its permission and calls the services that pages and commands call.

Evidence is read by id, in bounded parts, with the hash checked, and audited like a download.
"""

import codecs
from dataclasses import replace

from django.conf import settings
from django.contrib.auth.models import User
from mcp_types import CallToolResult

from benchsite.mcp.answers import answer
from benchsite.mcp.arguments import (
    MAX_PART,
    EvidenceListArguments,
    EvidenceReadArguments,
    LogsArguments,
    PreviewArguments,
    RunArguments,
    StartArguments,
    StatusArguments,
)
from evidence.register.streaming import artifact_for, artifacts_for, read_range
from evidence.serializers import mcp_evidence_document, mcp_evidence_part_document
from runs.models import LogLine, Run
from runs.serializers.previews import preview_document
from runs.serializers.runs import mcp_logs_document, run_document, runs_document
from runs.services import access, lifecycle, registry, starting
from runs.services.access import find_run
from runs.services.cleaning import request_cleanup
from runs.services.previewing import Choice, make_preview
from runs.services.refusals import BadInput
from runs.services.runlog import read_log


def preview(user: User, arguments: PreviewArguments) -> CallToolResult:
    """What would be executed, with every check. Starts nothing; valid for 15 minutes."""
    access.require(user, access.START)
    profile = registry.find_profile(arguments.profile)
    choice = Choice(
        profile=profile,
        bundle=registry.bundle_of(profile),
        endpoint=registry.find_endpoint(arguments.endpoint or ""),
        worker=registry.find_worker(settings.WORKER_NAME if arguments.worker is None else arguments.worker),
        tasks=arguments.tasks,
        max_trial_seconds=arguments.max_trial_seconds,
        max_steps=arguments.max_steps,
    )
    made = make_preview(user=user, choice=choice)
    return answer(preview_document(made), exact=("spec",))


def start(user: User, arguments: StartArguments) -> CallToolResult:
    """Start what a preview of this user showed; the same preview twice gives the same run."""
    run = starting.confirm_by_hash(
        user=user, preview_id=arguments.preview, spec_sha256=arguments.spec_sha256, accepted=arguments.accept
    )
    return _run(user, run.key)


def status(user: User, arguments: StatusArguments) -> CallToolResult:
    access.require(user, access.VIEW)
    if arguments.run is not None:
        return _run(user, arguments.run)
    newest = Run.objects.select_related("profile", "bundle", "endpoint", "worker").prefetch_related("trials")
    return answer(runs_document(newest[: arguments.limit]))


def logs(user: User, arguments: LogsArguments) -> CallToolResult:
    """Lines from a cursor on; fewer than asked for when their text would be more than 64 KiB."""
    access.require(user, access.READ_PRIVATE)
    run = find_run(arguments.run)
    window = read_log(run, cursor=arguments.cursor, limit=arguments.limit)
    if lines := _within_limit(window.lines):
        window = replace(window, lines=lines, next_cursor=lines[-1].seq + 1)
    return answer(mcp_logs_document(run, window))


def cancel(user: User, arguments: RunArguments) -> CallToolResult:
    access.require(user, access.CANCEL)
    run = find_run(arguments.run)
    outcome = lifecycle.request_cancel(run.pk, user=user)
    return _run(user, run.key, outcome=outcome.value)


def cleanup(user: User, arguments: RunArguments) -> CallToolResult:
    """Ask the run's worker to clean up again."""
    access.require(user, access.CLEAN)
    run = find_run(arguments.run)
    asked = request_cleanup(user=user, run=run)
    return _run(user, run.key, asked=asked)


def _run(user: User, key: str, **more: object) -> CallToolResult:
    access.require(user, access.VIEW)
    private = access.may(user, access.READ_PRIVATE)
    return answer(run_document(find_run(key), private=private, **more))


def _within_limit(lines: list[LogLine]) -> list[LogLine]:
    """The first lines whose texts together are at most 64 KiB; one line always fits."""
    total = 0
    for index, line in enumerate(lines):
        total += line.size
        if total > MAX_PART:
            return lines[:index]
    return lines


class BeyondEnd(BadInput):
    code = "evidence.beyond_end"


def evidence_list(user: User, arguments: EvidenceListArguments) -> CallToolResult:
    """The register of a run: every file for operators, the public ones for viewers."""
    access.require(user, access.VIEW)
    run = find_run(arguments.run)
    rows = list(artifacts_for(user, run).filter(pk__gt=arguments.cursor).order_by("pk")[: arguments.limit + 1])
    files = rows[: arguments.limit]
    return answer(mcp_evidence_document(run, files, files[-1].pk if len(rows) > len(files) else None))


def evidence_read(user: User, arguments: EvidenceReadArguments) -> CallToolResult:
    """At most 64 KiB of a file as text, proved to be what was registered."""
    artifact = artifact_for(user, arguments.file)
    if arguments.offset > artifact.size:
        raise BeyondEnd(f"The file has {artifact.size:,} bytes; give a smaller offset.")
    end = min(arguments.offset + arguments.length, artifact.size)
    data = read_range(user, artifact, arguments.offset, end)
    text, end = _whole_characters(data, arguments.offset, artifact.size)
    return answer(mcp_evidence_part_document(artifact, text, arguments.offset, end if end < artifact.size else None))


def _whole_characters(data: bytes, start: int, size: int) -> tuple[str, int]:
    """The text, and where the next part begins: a character that the end of a part cuts belongs to the next."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    last = start + len(data) >= size
    text = decoder.decode(data, last)
    held = b"" if last else decoder.getstate()[0]
    return text, start + len(data) - len(held)
