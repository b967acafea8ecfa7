"""Checks profile files, and stores them."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Exit
from runs.documents.profile.loading import load_profile
from runs.management.command import CLI_USER, SiteCommand
from runs.management.files import read_document
from runs.serializers.definitions import profile_check_document
from runs.services import access, registry


class Command(SiteCommand):
    help = "Check a profile file, or check and store it. Lists every problem."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action",
            choices=["verify", "import"],
            metavar="verify|import",
            help="check the file (needs no database), or check and store it",
        )
        parser.add_argument("file", type=Path, metavar="FILE", help="the profile's JSON file")

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=CLI_USER) if options["action"] == "verify" else super().user_of(options)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        data = read_document(options["file"])
        try:
            profile = load_profile(data)
        except DocumentError as error:
            self.output.problems(options["file"], error.problems)
            self.output.json(profile_check_document(None, error.problems))
            return Exit.BAD_INPUT
        if options["action"] == "import":
            access.require(user, access.START)
            registry.store_profile(data, user=user)
        stored = options["action"] == "import"
        self.output.line(f"{profile.name} ({profile.schema}): {'stored' if stored else 'valid'}")
        self.output.line(f"content SHA-256  {profile.content_sha256}")
        self.output.line(f"file SHA-256     {profile.file_sha256}")
        if not profile.is_runnable:
            self.output.line(profile.not_runnable_because)
        self.output.json(profile_check_document(profile, stored=stored))
        return Exit.DONE
