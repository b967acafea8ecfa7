"""Makes every check of this worker, and of a run that somebody might start on it; starts nothing."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser
from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Exit
from runs.documents.profile.loading import require_runnable
from runs.documents.profile.v2 import EVIDENCE_DISK_BYTES
from runs.documents.run_spec import RunSpec, Spec
from runs.management.arguments import DEFAULT_PROFILE, add_choice, choice_of, is_chosen
from runs.management.command import SiteCommand
from runs.management.run_text import print_checks
from runs.management.waiting import heartbeat
from runs.models import Worker
from runs.serializers.previews import preflight_document
from runs.services import access, registry, reviewing, workers
from runs.services.preview_checks import Check, stored_checks, worst_first
from runs.services.previewing import resolve
from runs.services.refusals import BadInput

if TYPE_CHECKING:
    from runs.engine.preflight.host_preflight import ExpectedHost


class Command(SiteCommand):
    help = (
        "Check whether this worker can start a run now: engine, limits, images, harness, disk, networks. With "
        "the options of preview, also whether that run could start. Starts nothing."
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
        # What rows and the stored report say: of the run that was described, else of the worker alone.
        spec, checks = resolve(choice_of(options)) if is_chosen(options) else (None, stored_checks(worker))
        if not options["stored"]:
            # A check that was made anew replaces the stored one of its name.
            made = self._checked_now(options["worker"], worker, spec)
            names = {check["name"] for check in made}
            checks = worst_first([*(check for check in checks if check["name"] not in names), *made])
        self._print(worker, options, checks)
        document = preflight_document(
            options["worker"],
            worker.host if worker else settings.WORKER_HOST,
            worker,
            spec,
            checks,
            stored=options["stored"],
        )
        self.output.json(document)
        return Exit.BLOCKED if document["blocked"] else Exit.DONE

    def _checked_now(self, name: str, worker: Worker | None, spec: Spec | None) -> list[Check]:
        if worker is not None and worker.host and worker.host != settings.WORKER_HOST:
            raise BadInput(
                f"Worker {name} is on host {worker.host}, and this is {settings.WORKER_HOST}. Run the command there, "
                "or judge its stored report with --stored.",
                code="input.other_host",
            )
        from runs.engine.ending.judge import the_judge  # only workers import the engine
        from runs.engine.host.ca_files import ca_file_checks
        from runs.engine.host.credentials import evidence_checks
        from runs.engine.preflight.host_preflight import (
            Host,
            host_checks,
        )

        host = Host(name, settings.ASSETS, settings.DATA / "maintenance" / name, settings.DOCKER_TIMEOUT_S)
        content = None if spec is None else spec.content
        with heartbeat(self.output, f"checking worker {name}"):
            checks = [*host_checks(host, _expected(worker, content)), *the_judge().checks()]
            if spec is not None:
                endpoint = spec.content.endpoint
                checks += [*ca_file_checks(endpoint.ca_file), *evidence_checks(endpoint.credential, spec.text)]
            return [check.as_json() for check in checks]

    def _print(self, worker: Worker | None, options: dict[str, Any], checks: list[Check]) -> None:
        print_checks(self.output, checks)
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


def _expected(worker: Worker | None, spec: RunSpec | None) -> "ExpectedHost":
    """What a spec is bound to; without one, what the worker's rows and the packaged profile say."""
    from runs.engine.preflight.host_preflight import ExpectedHost  # only workers import the engine

    if spec is not None:
        return ExpectedHost(
            spec.worker.capability_sha256,
            spec.harness.lock_sha256,
            spec.images.model_dump(),
            spec.limits,
            spec.requirements.disk_bytes,
        )
    limits, disk_bytes = None, EVIDENCE_DISK_BYTES
    with suppress(BadInput, DocumentError):  # before the packaged profile was installed there is nothing to compare
        profile = registry.find_profile(DEFAULT_PROFILE)
        limits = reviewing.loaded_bundle(registry.bundle_of(profile)).manifest.ceilings
        disk_bytes = require_runnable(registry.loaded_profile(profile)).suites.environment.requirements.disk_bytes
    if worker is None:
        return ExpectedHost(limits=limits, disk_bytes=disk_bytes)
    images = {role: image.image_id for role, image in workers.images_of(worker).items()}
    return ExpectedHost(worker.capability_sha256, workers.harness_of(worker).lock_sha256, images, limits, disk_bytes)
