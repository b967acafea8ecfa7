"""Builds, verifies, certifies and stores task bundles."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.problems import DocumentError, Problem
from benchsite.lib.serializing import Exit
from runs.documents.bundle import packaged
from runs.documents.bundle.manifest import LoadedBundle, verify_bundle
from runs.images.recipes import recipe_identities
from runs.management.command import CLI_USER, SiteCommand
from runs.management.waiting import heartbeat
from runs.serializers.definitions import (
    bundle_build_document,
    bundle_certification_document,
    bundle_check_document,
    bundle_import_document,
)
from runs.services import access, bundle_import
from runs.services.refusals import BadInput

_FILES_ONLY = ("build", "verify")


class Command(SiteCommand):
    help = (
        "Build a bundle's manifest from its files, verify it against them, certify it in its own containers, or "
        "store it, as certified when its record says so and else as a draft. "
        "Exit 0, 2 with every problem, or 1 when a certification failed."
    )
    requires_system_checks: list[str] = []

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["build", "verify", "certify", "import"], help="what to do with it")
        parser.add_argument(
            "folder", nargs="?", type=Path, default=packaged.ENVIRONMENT_SMOKE,
            help="the bundle's folder; without one, the packaged bundle",
        )  # fmt: skip
        parser.add_argument("--check", action="store_true", help="with build: write nothing, exit 2 when out of date")

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=CLI_USER) if options["action"] in _FILES_ONLY else super().user_of(options)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        folder = options["folder"].resolve()
        if not folder.is_dir():
            raise BadInput(f"There is no folder {folder}.", code="input.no_folder")
        try:
            match options["action"]:
                case "build":
                    return self._build(folder, check=options["check"])
                case "verify":
                    return self._verify(folder)
                case "certify":
                    return self._certify(folder, user)
                case _:
                    return self._import(folder, user)
        except DocumentError as error:
            return self._refuse(folder, error.problems)

    def _build(self, folder: Path, *, check: bool) -> Exit:
        changed = packaged.rebuild(folder, recipes=recipe_identities(), write=not check)
        bundle = None if check and changed else packaged.read_bundle(folder)
        word = "out of date" if check else "written"
        self.output.line(f"{', '.join(changed)}: {word}" if changed else "up to date")
        digest = "" if bundle is None else bundle.manifest_sha256
        self.output.json(bundle_build_document(changed, digest))
        return Exit.BAD_INPUT if check and changed else Exit.DONE

    def _verify(self, folder: Path) -> Exit:
        bundle = packaged.read_bundle(folder)
        problems = verify_bundle(folder, bundle, recipes=recipe_identities())
        if problems:
            return self._refuse(folder, problems)
        self._describe(bundle)
        self.output.json(bundle_check_document(bundle.manifest_sha256))
        return Exit.DONE

    def _certify(self, folder: Path, user: User) -> Exit:
        access.require(user, access.START)
        from runs.engine.grading.certifying import certify_in_containers  # only workers import the engine

        with heartbeat(self.output, "certifying in containers") as report:
            record = certify_in_containers(folder, on_case=partial(_report_case, report))
        if record["passed"]:
            bundle_import.write_record(folder, record)
        self.output.line("certified" if record["passed"] else "NOT certified")
        self.output.json(bundle_certification_document(record))
        return Exit.DONE if record["passed"] else Exit.FAILED

    def _import(self, folder: Path, user: User) -> Exit:
        access.require(user, access.START)
        row = bundle_import.import_bundle(folder, data=settings.DATA, user=user)
        self.output.line(f"{row}: {row.get_status_display().lower()}, manifest {row.manifest_sha256}")
        self.output.json(bundle_import_document(row))
        return Exit.DONE

    def _describe(self, bundle: LoadedBundle) -> None:
        manifest = bundle.manifest
        self.output.line(f"{manifest.name} revision {manifest.revision}: as the manifest says")
        self.output.line(f"manifest SHA-256  {bundle.manifest_sha256}")
        rows = [(task.name, len(task.files), task.checksum) for task in manifest.tasks]
        self.output.table(("task", "files", "checksum"), rows)

    def _refuse(self, folder: Path, problems: Sequence[Problem]) -> Exit:
        self.output.problems(folder, problems)
        self.output.json(bundle_check_document(None, problems))
        return Exit.BAD_INPUT


def _report_case(report: Callable[[str], None], task: str, case: str, passed: bool) -> None:
    report(f"{'ok  ' if passed else 'FAIL'}  {task}  {case}")
