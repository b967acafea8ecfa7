"""Checks profile files, and stores them."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.problems import DocumentError
from runs.documents.profile.loading import LoadedProfile, load_profile
from runs.management.documents import problem_rows, read_document, refusal_line
from runs.management.output import CLI_USER, Exit, SiteCommand
from runs.services import access, registry

_SCHEMA = "benchsite.profile-check/v1"


class Command(SiteCommand):
    help = "Check a profile file of any version, or store it. Exit 0, or 2 with every problem."
    requires_system_checks: list[str] = []

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["verify", "import"], help="verify needs no database")
        parser.add_argument("file", type=Path, help="the profile's JSON file")

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=CLI_USER) if options["action"] == "verify" else super().user_of(options)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        data = read_document(options["file"])
        try:
            profile = load_profile(data)
        except DocumentError as error:
            return self._invalid(options["file"], error)
        if options["action"] == "import":
            access.require(user, access.START)
            registry.store_profile(data, user=user)
        self._valid(profile, stored=options["action"] == "import")
        return Exit.DONE

    def _invalid(self, file: Path, error: DocumentError) -> Exit:
        self.output.table(("code", "path", "problem"), problem_rows(error.problems))
        problems = [problem.as_json() for problem in error.problems]
        self.output.json(_SCHEMA, {"valid": False, "problems": problems})
        self.output.complain(refusal_line(file, error.problems))
        return Exit.BAD_INPUT

    def _valid(self, profile: LoadedProfile, *, stored: bool) -> None:
        self.output.line(f"{profile.name} ({profile.schema}): {'stored' if stored else 'valid'}")
        self.output.line(f"content SHA-256  {profile.content_sha256}")
        self.output.line(f"file SHA-256     {profile.file_sha256}")
        if not profile.is_runnable:
            self.output.line(profile.not_runnable_because)
        self.output.json(
            _SCHEMA,
            {
                "valid": True,
                "problems": [],
                "name": profile.name,
                "profile_schema": profile.schema,
                "content_sha256": profile.content_sha256,
                "file_sha256": profile.file_sha256,
                "suites": list(profile.suites),
                "runnable": profile.is_runnable,
                "stored": stored,
            },
        )
