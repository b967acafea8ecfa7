"""Builds, verifies, certifies, stores, lists and checks task bundles."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.problems import DocumentError, Problem
from benchsite.lib.serializing import Exit
from runs.documents.bundle import packaged
from runs.documents.bundle.manifest import verify_bundle
from runs.images.recipes import recipe_identities
from runs.management.command import CLI_USER, SiteCommand
from runs.management.waiting import heartbeat
from runs.models import TaskBundle
from runs.serializers.definitions import (
    bundle_build_document,
    bundle_certification_document,
    bundle_check_document,
    bundle_import_document,
    bundles_document,
)
from runs.services import access, bundle_files, bundle_import, registry
from runs.services.refusals import BadInput, whole_number

_FILES_ONLY = ("build", "verify")


class Command(SiteCommand):
    help = (
        "Build a task bundle's manifest from its files, verify the files against it, certify the bundle in its own "
        "containers, or import it: as certified when its record says so, else as a draft. List the stored bundles, or "
        "check every stored file of one. Lists every problem. Exit 1 when a certification failed, 4 when a stored file "
        "is lost or differs."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        actions = ["build", "verify", "certify", "import", "list", "check"]
        parser.add_argument("action", choices=actions, metavar="|".join(actions), help="what to do with the bundle")
        parser.add_argument(
            "bundle", nargs="?", metavar="FOLDER|NAME",
            help="the bundle's folder, without one the packaged bundle; with check the name of a stored bundle",
        )  # fmt: skip
        parser.add_argument("--check", action="store_true", help="with build: write nothing, exit 2 when out of date")
        # Read as text and parsed later, so that the refusal is the same everywhere.
        parser.add_argument("--revision", metavar="N", help="with check: this revision, not the reviewed or newest one")

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=CLI_USER) if options["action"] in _FILES_ONLY else super().user_of(options)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        if options["action"] == "list":
            return self._list(user)
        if options["action"] == "check":
            return self._check(user, options["bundle"] or packaged.ENVIRONMENT_SMOKE.name, options["revision"])
        folder = Path(options["bundle"] or packaged.ENVIRONMENT_SMOKE).resolve()
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

    def _list(self, user: User) -> Exit:
        access.require(user, access.VIEW)
        rows = TaskBundle.objects.defer("manifest", "certification")
        table = [(row.name, row.revision, row.status, row.place, row.manifest_sha256) for row in rows]
        self.output.table(("bundle", "revision", "status", "files", "manifest SHA-256"), table)
        self.output.json(bundles_document(rows))
        return Exit.DONE

    def _check(self, user: User, name: str, revision: str | None) -> Exit:
        access.require(user, access.VIEW)
        row = registry.find_bundle(name, revision=None if revision is None else whole_number("revision", revision))
        problems = bundle_files.check_stored(row)
        if problems:
            self._refuse(row, problems)
            return Exit.ERROR
        self.output.line(f"{row}: every file is in the {row.place} as its manifest says")
        self.output.json(bundle_check_document(row.manifest_sha256))
        return Exit.DONE

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
        manifest = bundle.manifest
        self.output.line(f"{manifest.name} revision {manifest.revision}: as the manifest says")
        self.output.line(f"manifest SHA-256  {bundle.manifest_sha256}")
        rows = [(task.name, len(task.files), task.checksum) for task in manifest.tasks]
        self.output.table(("task", "files", "checksum"), rows)
        self.output.json(bundle_check_document(bundle.manifest_sha256))
        return Exit.DONE

    def _certify(self, folder: Path, user: User) -> Exit:
        access.require(user, access.START)
        from runs.engine.grading.certifying import certify_in_containers  # only workers import the engine

        with heartbeat(self.output, "certifying in containers") as report:
            record = certify_in_containers(
                folder, on_case=lambda task, case, passed: report(f"{'ok  ' if passed else 'FAIL'}  {task}  {case}")
            )
        if record["passed"]:
            bundle_import.write_record(folder, record)
        self.output.line("certified" if record["passed"] else "NOT certified")
        self.output.json(bundle_certification_document(record))
        return Exit.DONE if record["passed"] else Exit.FAILED

    def _import(self, folder: Path, user: User) -> Exit:
        access.require(user, access.START)
        row = bundle_import.import_bundle(folder, user=user)
        self.output.line(f"{row}: {row.get_status_display().lower()}, manifest {row.manifest_sha256}")
        self.output.json(bundle_import_document(row))
        return Exit.DONE

    def _refuse(self, subject: object, problems: Sequence[Problem]) -> Exit:
        self.output.problems(subject, problems)
        self.output.json(bundle_check_document(None, problems))
        return Exit.BAD_INPUT
