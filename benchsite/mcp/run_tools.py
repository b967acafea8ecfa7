"""The tools for runs: each requires its permission and calls the services that pages and commands call."""

from dataclasses import replace

from django.conf import settings
from django.contrib.auth.models import User
from mcp_types import CallToolResult

from benchsite.mcp.answers import answer
from benchsite.mcp.arguments import (
    MAX_PART,
    LogsArguments,
    PreviewArguments,
    RunArguments,
    StartArguments,
    StatusArguments,
)
from runs.models import LogLine, Run
from runs.serializers.previews import preview_document
from runs.serializers.runs import mcp_logs_document, run_document, runs_document
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
    return answer(preview_document(made), exact=("spec",))


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
    return answer(runs_document(newest[: given.limit]))


def logs(user: User, given: LogsArguments) -> CallToolResult:
    """Lines from a cursor on; fewer than asked for when their text would be more than 64 KiB."""
    access.require(user, access.READ_PRIVATE)
    run = find_run(given.run)
    window = read_log(run, cursor=given.cursor, limit=given.limit)
    if lines := _within_limit(window.lines):
        window = replace(window, lines=lines, next_cursor=lines[-1].seq + 1)
    return answer(mcp_logs_document(run, window))


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
