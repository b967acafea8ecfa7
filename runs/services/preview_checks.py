"""Checks of a preview from rows and the worker's report, without touching Docker.

Each check is ``{"name", "passed", "code", "detail", "remedy", "level"}``. ``level`` says what a failed one
means: ``block`` refuses the start, ``accept`` must be accepted by name, ``note`` only says so. The worker
runs its own preflight again when it claims the run.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.canonical import canonical_sha256, load_object
from benchsite.lib.problems import DocumentError, Problem
from runs.checks.check import Level
from runs.checks.worker import ceiling_checks, disk_check, report_checks
from runs.documents.credentials import EVIDENCE_CHECK
from runs.documents.profile.loading import require_runnable
from runs.documents.spending import amount_of
from runs.models import ACTIVE_STATES, BundleStatus, Endpoint, Profile, Run, RunState, TaskBundle, Worker
from runs.services import endpoint_switch, endpoint_testing, endpoint_usage, registry, reviewing, workers
from runs.services.workers import condition

type Check = dict[str, Any]

REPORT_FRESH_FOR = timedelta(hours=24)
REPORT = "Run manage.py worker --report there, or start the worker."


def check(name: str, passed: bool, code: str, detail: str, remedy: str = "", level: Level = "block") -> Check:
    """One check; code and remedy are kept only when it failed."""
    said = {"code": "", "remedy": ""} if passed else {"code": code, "remedy": remedy}
    return {"name": name, "passed": passed, "detail": detail, "level": level, **said}


def checks_of(
    *, profile: Profile, bundle: TaskBundle, endpoint: Endpoint, worker: Worker, problems: list[Problem]
) -> list[Check]:
    """All checks, failed ones first. ``problems`` are the reasons why no spec could be resolved."""
    found = [
        *_documents(profile, bundle, endpoint),
        *_spec(problems),
        *_report(worker),
        *_reported(workers.report_of(worker), profile, bundle),
        *_host(worker),
        *_last_test(endpoint, worker),
    ]
    return worst_first(found)


def stored_checks(worker: Worker | None) -> list[Check]:
    """What can be said of a worker without any run: by its stored report and its row, failed ones first."""
    if worker is None:
        return [_no_report("This worker")]
    report = workers.report_of(worker)
    reported = [one.as_json() for one in report_checks(report)] if report else []
    return worst_first([*_report(worker), *reported, *_host(worker)])


def worst_first(checks: list[Check]) -> list[Check]:
    """Failed checks first, among them those that block."""
    order = {"block": 0, "accept": 1, "note": 2}
    return sorted(checks, key=lambda one: (one["passed"], order[one["level"]]))


def _documents(profile: Profile, bundle: TaskBundle, endpoint: Endpoint) -> Iterator[Check]:
    status = BundleStatus(bundle.status)
    yield check(
        "bundle reviewed", status is BundleStatus.REVIEWED, "bundle.not_reviewed",
        f"{bundle} is {status.label.lower()}.", "A reviewer has to approve it first.",
    )  # fmt: skip
    yield check(
        "bundle hash", _sha256(bundle.manifest) == bundle.manifest_sha256, "bundle.hash_differs",
        "The stored manifest has the hash under which it was reviewed.", "Import the revision again.",
    )  # fmt: skip
    yield check(
        "bundle files", bundle.place != "missing", "bundle.not_stored",
        f"The task files of {bundle} are in {'no storage' if bundle.place == 'missing' else f'the {bundle.place}'}.",
        "Import the same revision again: manage.py bundle import FOLDER.",
    )  # fmt: skip
    yield check(
        "profile installed", profile.startable, "profile.suite_not_installed",
        f"Profile {profile.name} follows {profile.schema}.",
        "Its suites do not run here; choose another profile.",
    )  # fmt: skip
    stop = endpoint_switch.stopped(endpoint.name)
    yield check(
        "endpoint traffic", stop is None, "endpoint.stopped",
        f"{endpoint.name} was stopped by {stop.stopped_by_name}: {stop.reason}" if stop else
        f"The traffic of {endpoint.name} is not stopped.",
        "Choose another endpoint, or ask an administrator to allow it again.",
    )  # fmt: skip
    yield from _budgets(endpoint)
    yield check(
        "endpoint active", endpoint.active, "endpoint.retired",
        f"{endpoint} at {endpoint.host}.", "Preview again with the endpoint's current version.",
    )  # fmt: skip


def _budgets(endpoint: Endpoint) -> Iterator[Check]:
    """What the budgets over runs leave; a record that cannot be read has a check of its own."""
    with suppress(DocumentError):
        record = registry.endpoint_version(endpoint).record
        left = endpoint_usage.left(endpoint.name, record.budgets, record.prices)
        reached = endpoint_usage.reached(left)
        for scope, one in left.items():
            if reached is not None and not reached.startswith(f"budget.{scope}_"):
                continue
            whose = {"day": "for today (UTC)", "total": "over all runs"}[scope]
            amounts = [f"{one.tokens:,} tokens"] if one.tokens is not None else []
            if one.money is not None and record.prices is not None:
                amounts.append(f"{amount_of(one.money)} {record.prices.currency}")
            yield check(
                f"endpoint budget {scope}", reached is None, "endpoint.budget_reached",
                f"Of the budget of {endpoint.name} {whose} {' and '.join(amounts)} are left.",
                "Wait for the next day (UTC)." if scope == "day" else "Register a record with another budget.",
            )  # fmt: skip


def _spec(problems: list[Problem]) -> Iterator[Check]:
    for problem in problems:
        name = f"spec: {problem.path}" if problem.path else "spec"
        yield check(name, False, problem.code, f"{problem.sentence[:1].upper()}{problem.sentence[1:]}.")
    if not problems:
        yield check("spec resolved", True, "", "Harness, images, bundle, profile and endpoint fit together.")


def _report(worker: Worker) -> Iterator[Check]:
    yield check(
        "worker in service", worker.lost_declared_at is None, "worker.declared_lost",
        f"Worker {worker.name} is in service.", "Start the worker again; it then reconciles what it left.",
    )  # fmt: skip
    if worker.reported_at is None:
        yield _no_report(f"Worker {worker.name}")
        return
    now = timezone.now()
    yield check(
        "worker report", now - worker.reported_at < REPORT_FRESH_FOR, "worker.report_old",
        f"Worker {worker.name} reported {words.ago(worker.reported_at, now)}.", REPORT,
    )  # fmt: skip


def _no_report(subject: str) -> Check:
    return check("worker report", False, "worker.no_report", f"{subject} never reported.", REPORT)


def _reported(report: dict[str, Any], profile: Profile, bundle: TaskBundle) -> Iterator[Check]:
    """What the worker's own report says of engine, platform, size and limits; a missing report has its own check."""
    if not report:
        return
    found = [*report_checks(report)]
    with suppress(DocumentError):  # a manifest that cannot be read has a check of its own
        found += ceiling_checks(report, reviewing.loaded_bundle(bundle).manifest.ceilings)
    free = report.get("disk_free_bytes")
    with suppress(DocumentError):  # nor can a profile that was altered be started
        required = require_runnable(registry.loaded_profile(profile)).suites.environment.requirements
        if type(free) is int:
            # Only a note: it was so when the worker reported, and the start looks again.
            found.append(replace(disk_check(free, required.disk_bytes), level="note"))
    yield from (one.as_json() for one in found)


def _host(worker: Worker) -> Iterator[Check]:
    yield check(
        "worker alive", worker.alive, "worker.not_alive",
        f"Worker {worker.name}: {words.lowered(condition(worker, timezone.now()).word)}.",
        "The run waits in the queue until the worker is started.", "note",
    )  # fmt: skip
    waiting = Run.objects.filter(worker=worker, state__in=[*ACTIVE_STATES, RunState.QUEUED]).count()
    before = words.counted(waiting, "run is", "runs are")
    yield check(
        "worker idle", waiting == 0, "worker.busy",
        f"{before} before this one." if waiting else f"Worker {worker.name} is idle.",
        "The run waits for its turn.", "note",
    )  # fmt: skip


def _last_test(endpoint: Endpoint, worker: Worker) -> Iterator[Check]:
    """What this worker found when it last tested this endpoint: never more than a note, for the run asks again."""
    test = endpoint_testing.last_result(endpoint, worker)
    if test is None or test.ended_at is None:
        return
    yield from (one for one in test.checks if one["name"] == EVIDENCE_CHECK)
    failed = next((one for one in test.checks if not one["passed"] and one["name"] != EVIDENCE_CHECK), None)
    said = "it was ready" if failed is None else str(failed["detail"])
    yield check(
        "endpoint last test", failed is None, "" if failed is None else failed["code"],
        f"{words.ago(test.ended_at, timezone.now())}, from {worker.name}: {said}".rstrip(".") + ".",
        "" if failed is None else failed["remedy"] or "Test it again, on the endpoint's page.", "note",
    )  # fmt: skip


def _sha256(canonical: str) -> str:
    try:
        return canonical_sha256(load_object(canonical.encode()))
    except DocumentError:
        return ""
