"""The base of every command: its options, its user, and how refusals and errors become exit codes."""

import os
import sys
import traceback
from argparse import SUPPRESS
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from benchsite.lib.database import CODE as UNUSABLE
from benchsite.lib.database import database_trouble
from benchsite.lib.disk import disk_trouble
from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Exit, error_document
from runs.management.printing import OutputLost, Printer
from runs.serializers.errors import refusal_document
from runs.services.access import Role
from runs.services.refusals import BadInput, Refusal, UnknownName
from runs.services.transitions import IllegalTransition

CLI_USER = "cli"
EXIT_CODES = (
    "Exit codes: 0 passed or done, 1 evaluated and failed, 2 bad input, 3 blocked, 4 error or incomplete, 5 cancelled, "
    "6 cleanup failed."
)


class SiteCommand(BaseCommand):
    """A command with ``--json``, ``--user``, typed errors and the shared exit codes; subclasses define ``act``."""

    requires_migrations_checks = False
    requires_system_checks: list[str] = []  # they open the database, which not every command needs
    # Django's own options still work; the help shows what the command itself takes.
    suppressed_base_arguments = {
        "--version", "--verbosity", "--traceback", "--settings", "--pythonpath", "--no-color", "--force-color",
        "--skip-checks",
    }  # fmt: skip
    default_user = CLI_USER
    output: Printer
    _user = CLI_USER
    _words: Sequence[str] | None = None  # what stood on the command line; None when a program calls

    def run_from_argv(self, argv: list[str]) -> None:
        self._words = argv[2:]
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Options are written out, so that a new one never changes what a script means; misuse is a refusal."""
        parser = super().create_parser(prog_name, subcommand, allow_abbrev=False, epilog=EXIT_CODES, **kwargs)
        parser.error = partial(self._misused, parser)  # type: ignore[method-assign]
        for action in parser._actions:
            if action.dest == "skip_checks":  # Django adds it past `suppressed_base_arguments`
                action.help = SUPPRESS
        return parser

    def _misused(self, parser: CommandParser, message: str) -> NoReturn:
        """Words that are not the command's: exit 2, with ``--json`` as a document like every other refusal."""
        if self._words is None:
            raise CommandError(message, returncode=int(Exit.BAD_INPUT))
        known = [word for action in parser._actions for word in action.option_strings]
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        near = get_close_matches(unknown, known, n=1) if unknown.startswith("--") else []
        sentence = f"{parser.prog}: {message}. " + (f"Did you mean {near[0]}? " if near else "")
        output = self._printer({"json": "--json" in self._words})
        output.error(error_document("command.usage", f"{sentence}See: {parser.prog} --help", Exit.BAD_INPUT))
        sys.exit(int(Exit.BAD_INPUT))

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
        default = f" ({self.default_user})" if self.default_user else "; required"
        user_help = f"act with this user's permissions{default}"
        parser.add_argument("--user", default=self.default_user, metavar="NAME", help=user_help)
        self.add_own_arguments(parser)

    def add_own_arguments(self, parser: CommandParser) -> None:
        """The command's own arguments."""

    def user_of(self, options: dict[str, Any]) -> User:
        """Who acts; a command that only looks at files needs no database and overrides this."""
        return acting_user(options["user"])

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        """What the command does: prints to ``self.output`` and returns the exit code."""
        raise NotImplementedError

    def _printer(self, options: dict[str, Any]) -> Printer:
        out, err = getattr(self.stdout, "_out", self.stdout), getattr(self.stderr, "_out", self.stderr)
        return Printer(out, err, as_json=options["json"])

    def handle(self, *args: Any, **options: Any) -> None:
        self.output, self._user = self._printer(options), options["user"]
        try:
            code = self.act(self.user_of(options), options)
        except (Refusal, DocumentError, IllegalTransition, PermissionDenied) as error:
            code = self._refused(error)
        except KeyboardInterrupt as stop:
            sentence = getattr(stop, "sentence", "Stopped by Ctrl-C. Whatever had been started goes on.")
            code = self.output.error(error_document("command.interrupted", sentence, Exit.ERROR))
        except (BrokenPipeError, OutputLost) as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is tried again at the exit
            code = Exit.ERROR if isinstance(error, BrokenPipeError) else self._unexpected(error)
        except Exception as error:  # Python would exit with 1, which means evaluated and failed
            code = self._unexpected(error)
        if code != Exit.DONE:
            sys.exit(int(code))

    def _unexpected(self, error: Exception) -> Exit:
        """An error of the engine, the assets, a journal, the database or the disk has a code and a sentence; any other
        one is a defect."""
        code, sentence, detail = getattr(error, "code", None), getattr(error, "sentence", None), ""
        if not (isinstance(code, str) and isinstance(sentence, str)):
            on_disk = disk_trouble(error)
            if unusable := database_trouble(error):
                code, sentence = UNUSABLE, unusable
            elif on_disk is not None:
                code, sentence, detail = on_disk.code, on_disk.sentence, on_disk.detail
            else:
                code, detail = "command.failed", traceback.format_exc()
                sentence = f"The command failed unexpectedly ({type(error).__name__}); please report it."
        for line in detail.splitlines():
            self.output.warn(line)
        return self.output.error(error_document(code, sentence, Exit.ERROR))

    def _refused(self, error: Exception) -> Exit:
        sentence = ""
        if isinstance(error, PermissionDenied) and self._user == CLI_USER:
            sentence = f"The local operator {CLI_USER} may not do this; name somebody who may with --user NAME."
        code = self.output.error(refusal_document(error, sentence=sentence))
        for further in error.problems[1:] if isinstance(error, DocumentError | BadInput) else ():
            self.output.warn(f"also: {further}")
        return code


def acting_user(name: str) -> User:
    """The user a command acts for. ``cli`` is made on first use: a local operator who cannot log in."""
    if name == CLI_USER:
        with transaction.atomic():  # another command at this moment sees the user with the role, or none yet
            user, created = User.objects.get_or_create(username=CLI_USER)
            if created:
                user.set_unusable_password()
                user.save()
                user.groups.set(Group.objects.filter(name=Role.OPERATOR.value))
        return user
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        known = User.objects.filter(is_active=True).values_list("username", flat=True)
        raise UnknownName("user", name, known, "Add one in the admin.")
    return found
