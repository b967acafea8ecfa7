"""Makes every check of this worker, and of a run that somebody might start on it; starts nothing."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser
from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.canonical import load_object
from runs.documents.specs import Spec
from runs.management.choosing import add_choice, choice_of, is_chosen
from runs.management.expectations import expected_of
from runs.management.heartbeat import heartbeat
from runs.management.output import Exit, SiteCommand
from runs.management.telling import tell_checks
from runs.models import Worker
from runs.services import access, registry
from runs.services.preview_checks import Check, stored_checks, worst_first
from runs.services.previewing import resolve
from runs.services.refusals import BadInput

SCHEMA = "benchsite.preflight/v1"


class Command(SiteCommand):
    help = (
        "Check whether a run can start on this worker now: engine, limits (proved by an owned container), images, "
        "harness, disk, subnets. With the options of preview also whether that run could. Starts nothing. "
        "Exit 0, or 3 when a required check does not hold."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        add_choice(parser, required=False)
        parser.add_argument(
            "--stored", action="store_true",
            help="judge the worker's stored report instead of making the checks; works on any host",
        )  # fmt: skip

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW if options["stored"] else access.START)
        worker = _worker(options["worker"], must_exist=options["stored"] or is_chosen(options))
        spec, checks = _of_run(options, worker)
        if not options["stored"]:
            checks = _merged(checks, self._made_anew(options["worker"], worker, spec))
        self._tell(worker, options, checks)
        blocked = any(check["level"] == "block" and not check["passed"] for check in checks)
        self.output.json(
            SCHEMA,
            {
                "worker": options["worker"],
                "host": worker.host if worker else settings.WORKER_HOST,
                "stored": options["stored"],
                "reported_at": _time(worker),
                "reported_age_s": _age(worker),
                "spec_sha256": None if spec is None else spec.spec_sha256,
                "blocked": blocked,
                "checks": checks,
            },
        )
        return Exit.BLOCKED if blocked else Exit.DONE

    def _made_anew(self, name: str, worker: Worker | None, spec: Spec | None) -> list[Check]:
        if worker is not None and worker.host and worker.host != settings.WORKER_HOST:
            raise BadInput(
                f"Worker {name} is on host {worker.host}, and this is {settings.WORKER_HOST}. Run the command there, "
                "or judge its stored report with --stored.",
                code="input.other_host",
            )
        from runs.engine.preflight.host_preflight import (  # only workers import the engine
            Host,
            host_checks,
        )

        host = Host(name, settings.ASSETS, settings.DATA / "maintenance" / name, settings.DOCKER_TIMEOUT_S)
        document: Any = None if spec is None else load_object(spec.text.encode())
        with heartbeat(self.output, f"checking worker {name}"):
            return [check.as_json() for check in host_checks(host, expected_of(worker, document))]

    def _tell(self, worker: Worker | None, options: dict[str, Any], checks: list[Check]) -> None:
        tell_checks(self.output, checks)
        failed = [check for check in checks if not check["passed"] and check["level"] == "block"]
        source = "made just now"
        if options["stored"]:
            source = f"by the report of {words.ago(worker.reported_at if worker else None, timezone.now())}"
        outcome = f"{words.counted(len(failed), 'required check')} failed" if failed else "every required check holds"
        self.output.line(f"worker {options['worker']}: {outcome}, {source}")


def _worker(name: str, *, must_exist: bool) -> Worker | None:
    """This host's own worker may be checked before it was ever prepared."""
    if must_exist or name != settings.WORKER_NAME:
        return registry.find_worker(name)
    return Worker.objects.filter(name=name).first()


def _of_run(options: dict[str, Any], worker: Worker | None) -> tuple[Spec | None, list[Check]]:
    """What rows and the stored report say: of the run that was described, else of the worker alone."""
    if is_chosen(options):
        return resolve(choice_of(options))
    return None, stored_checks(worker)


def _merged(stored: Iterable[Check], made: list[Check]) -> list[Check]:
    """A check that was made anew replaces the stored one of its name."""
    names = {check["name"] for check in made}
    return worst_first([*(check for check in stored if check["name"] not in names), *made])


def _time(worker: Worker | None) -> str | None:
    if worker is None or worker.reported_at is None:
        return None
    return worker.reported_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _age(worker: Worker | None) -> float | None:
    seconds = words.between(worker.reported_at if worker else None, timezone.now())
    return None if seconds is None else round(max(0.0, seconds), 1)
