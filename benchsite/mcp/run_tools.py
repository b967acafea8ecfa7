"""Which tools deal with runs? Each asks for its permission, calls what pages and commands call, and tells."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from mcp_types import CallToolResult

from benchsite.mcp.answers import NOTICE, answer
from benchsite.mcp.arguments import (
    MAX_PART,
    LogsArguments,
    PreviewArguments,
    RunArguments,
    StartArguments,
    StatusArguments,
)
from runs.management.commands.preview import preview_json
from runs.management.run_words import RUN_SCHEMA, run_json
from runs.models import LogLine, Run
from runs.services import access, lifecycle, registry, starting
from runs.services.cleaning import request_cleanup
from runs.services.previewing import Choice, make_preview
from runs.services.run_lookup import find_run
from runs.services.runlog import read_log


def preview(user: User, given: PreviewArguments) -> CallToolResult:
    """What would be executed, with every check. Starts nothing; valid for 15 minutes."""
    access.require(user, access.START)
    profile = registry.find_profile(given.profile)
    choice = Choice(
        profile=profile,
        bundle=registry.bundle_of(profile),
        endpoint=registry.find_endpoint(given.endpoint or ""),
        worker=registry.find_worker(settings.WORKER_NAME if given.worker is None else given.worker),
        tasks=given.tasks,
        max_trial_seconds=given.max_trial_seconds,
        max_steps=given.max_steps,
    )
    made = make_preview(user=user, choice=choice)
    return answer("benchsite.preview/v1", preview_json(made), exact=("spec",))


def start(user: User, given: StartArguments) -> CallToolResult:
    """Start what a preview of this user showed; the same preview twice gives the same run."""
    run = starting.confirm_by_hash(
        user=user, preview_id=given.preview, spec_sha256=given.spec_sha256, accepted=given.accept
    )
    return _run(user, run.key)


def status(user: User, given: StatusArguments) -> CallToolResult:
    access.require(user, access.VIEW)
    if given.run is not None:
        return _run(user, given.run)
    newest = Run.objects.select_related("profile", "bundle", "endpoint", "worker").prefetch_related("trials")
    return answer("benchsite.runs/v1", {"runs": [run_json(run) for run in newest[: given.limit]]})


def logs(user: User, given: LogsArguments) -> CallToolResult:
    """Lines from a cursor on; fewer than asked for when their text would be more than 64 KiB."""
    access.require(user, access.READ_PRIVATE)
    run = find_run(given.run)
    window = read_log(run, cursor=given.cursor, limit=given.limit)
    lines = _fitting(window.lines)
    document = {
        "run": run.key,
        "next_cursor": lines[-1].seq + 1 if lines else window.next_cursor,
        "dropped": window.dropped,
        "notice": NOTICE,
        "lines": [_line(line) for line in lines],
    }
    return answer("benchsite.mcp-logs/v1", document)


def cancel(user: User, given: RunArguments) -> CallToolResult:
    access.require(user, access.CANCEL)
    run = find_run(given.run)
    outcome = lifecycle.request_cancel(run.pk, user=user)
    return _run(user, run.key, outcome=outcome.value)


def cleanup(user: User, given: RunArguments) -> CallToolResult:
    """Ask the run's worker to clean up again."""
    access.require(user, access.CLEAN)
    run = find_run(given.run)
    asked = request_cleanup(user=user, run=run)
    return _run(user, run.key, asked=asked)


def _run(user: User, key: str, **more: object) -> CallToolResult:
    access.require(user, access.VIEW)
    document = run_json(find_run(key), private=access.may(user, access.READ_PRIVATE))
    return answer(RUN_SCHEMA, {**document, **more})


def _fitting(lines: list[LogLine]) -> list[LogLine]:
    """The first lines whose texts together are at most 64 KiB; one line always fits."""
    total = 0
    for index, line in enumerate(lines):
        total += line.size
        if total > MAX_PART:
            return lines[:index]
    return lines


def _line(line: LogLine) -> dict[str, Any]:
    at = line.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"seq": line.seq, "at": at, "source": line.source, "untrusted_text": line.text, "cut": line.cut}
