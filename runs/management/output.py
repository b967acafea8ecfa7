"""What does a command print, and with which code does it exit? Shared by every command (issue 7.1).

Results go to stdout: lines in a pipe, tables on a terminal, one JSON document with ``--json``. Errors go to stderr.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from enum import IntEnum
from functools import partial
from typing import Any, NoReturn

from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.utils import OperationalError, ProgrammingError
from rich.console import Console
from rich.text import Text

from benchsite.lib.disk import disk_trouble
from benchsite.lib.problems import DocumentError
from runs.management.inert import inert
from runs.management.streams import OutputLost, say_if_possible, write
from runs.management.tables import show_table
from runs.models import Cleanup, Run
from runs.outcomes.buckets import Verdict
from runs.services.access import Role
from runs.services.lifecycle import IllegalMove
from runs.services.refusals import BadInput, Blocked, Changed, NotAccepted, Refusal, UnknownName

CLI_USER = "cli"


class Exit(IntEnum):
    """The exit codes of every command."""

    DONE = 0  # passed, or done
    FAILED = 1  # evaluated and failed
    BAD_INPUT = 2
    BLOCKED = 3  # by the preflight, or because something changed
    ERROR = 4  # error or incomplete
    CANCELLED = 5
    CLEANUP_FAILED = 6


_OF_VERDICT = {
    Verdict.PASSED: Exit.DONE,
    Verdict.FAILED: Exit.FAILED,
    Verdict.INCOMPLETE: Exit.ERROR,
    Verdict.ERROR: Exit.ERROR,
    Verdict.CANCELLED: Exit.CANCELLED,
}


def exit_of(run: Run) -> Exit:
    """A run's exit code. What was left behind weighs more than the verdict: somebody has to act."""
    if not run.terminal or run.verdict is None:
        return Exit.DONE
    return Exit.CLEANUP_FAILED if run.cleanup == Cleanup.FAILED else _OF_VERDICT[Verdict(run.verdict)]


@dataclass(frozen=True, slots=True)
class Progress:
    """How a waiting command speaks: ``say`` a line that stays, ``show`` where things are."""

    say: Callable[[str], None]
    show: Callable[[str], None]


class Printer:
    """Writes a command's results to ``out`` and its errors to ``err``. Raises OutputLost when ``out`` takes nothing."""

    def __init__(self, out: Any, err: Any, *, as_json: bool) -> None:
        self.out, self.err, self.as_json = out, err, as_json
        self.on_terminal = bool(getattr(out, "isatty", bool)())

    def line(self, text: str) -> None:
        """One line of plain text, at once even in a pipe; nothing with ``--json``."""
        if not self.as_json:
            write(self.out, inert(text))

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """What changes while a command waits: lines on stdout (with ``--json`` on stderr).

        A terminal also gets a last line that moves.
        """
        if self.as_json or not self.on_terminal:
            yield Progress(self.complain if self.as_json else self.line, lambda text: None)
            return
        console = Console(file=self.out, highlight=False, markup=False)
        with console.status("") as status:
            yield Progress(
                lambda text: console.print(Text(inert(text)), soft_wrap=True),
                lambda text: status.update(Text(inert(text))),
            )

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table on a terminal, tab-separated lines in a pipe, nothing with ``--json``."""
        cells = [[inert(str(cell)) for cell in row] for row in rows]
        if self.as_json:
            return
        if not self.on_terminal:
            for row in cells:
                write(self.out, "\t".join(row))
            return
        show_table(Console(file=self.out, highlight=False, markup=False), headings, cells)

    def json(self, schema: str, document: dict[str, Any]) -> None:
        """The command's one JSON document; nothing without ``--json``."""
        if self.as_json:
            write(self.out, json.dumps({"schema": schema, **document}, ensure_ascii=True))

    def complain(self, sentence: str) -> None:
        """A sentence on stderr about something beside the command's result."""
        say_if_possible(self.err, inert(sentence))

    def complain_at_length(self, text: str) -> None:
        """Several lines on stderr."""
        for line in text.splitlines():
            self.complain(line)

    def error(self, code: str, sentence: str, exit_code: Exit, extra: dict[str, Any]) -> None:
        """A refusal: the sentence on stderr, and with ``--json`` its document on stdout."""
        self.complain(sentence)
        document = {"code": code, "sentence": sentence, "exit_code": int(exit_code), **extra}
        with suppress(OutputLost, OSError):  # what cannot be written changes no exit code
            self.json("benchsite.error/v1", document)


class SiteCommand(BaseCommand):
    """A command with ``--json``, ``--user``, typed errors and the shared exit codes; subclasses define ``act``."""

    requires_migrations_checks = False
    output: Printer
    _user = CLI_USER
    _words: Sequence[str] | None = None  # what stood on the command line; None when a program calls

    def run_from_argv(self, argv: list[str]) -> None:
        self._words = argv[2:]
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Options are written out, so that a new one never changes what a script means; misuse is a refusal."""
        parser = super().create_parser(prog_name, subcommand, allow_abbrev=False, **kwargs)
        parser.error = partial(self._misused, parser)  # type: ignore[method-assign]
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
        output.error("command.usage", f"{sentence}See: {parser.prog} --help", Exit.BAD_INPUT, {})
        sys.exit(int(Exit.BAD_INPUT))

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument("--user", default=CLI_USER, help="act with this user's permissions")
        self.add_own_arguments(parser)

    def add_own_arguments(self, parser: CommandParser) -> None:
        """The command's own arguments."""

    def user_of(self, options: dict[str, Any]) -> User:
        """Who acts; a command that only looks at files needs no database and overrides this."""
        return acting_user(options["user"])

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        """Do it, print to ``self.output``, return the exit code."""
        raise NotImplementedError

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Django's own checks before a command use the database too."""
        try:
            return super().execute(*args, **options)
        except (OperationalError, ProgrammingError) as error:
            self.output = self._printer(options)
            sys.exit(int(self._without_tables(error)))
        except CommandError as error:  # Django's own, as of a system check: it would exit with 1
            self._printer(options).error("command.settings", str(error).strip(), Exit.BAD_INPUT, {})
            sys.exit(int(Exit.BAD_INPUT))

    def _printer(self, options: dict[str, Any]) -> Printer:
        out, err = getattr(self.stdout, "_out", self.stdout), getattr(self.stderr, "_out", self.stderr)
        return Printer(out, err, as_json=options["json"])

    def handle(self, *args: Any, **options: Any) -> None:
        self.output, self._user = self._printer(options), options["user"]
        try:
            code = self.act(self.user_of(options), options)
        except (Refusal, DocumentError, IllegalMove, PermissionDenied) as error:
            code = self._refused(error)
        except (OperationalError, ProgrammingError) as error:
            code = self._without_tables(error)
        except KeyboardInterrupt as stop:
            sentence = getattr(stop, "sentence", "Stopped by Ctrl-C. Whatever had been started goes on.")
            self.output.error("command.interrupted", sentence, Exit.ERROR, {})
            code = Exit.ERROR
        except (BrokenPipeError, OutputLost) as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is tried again at the exit
            code = Exit.ERROR if isinstance(error, BrokenPipeError) else self._unexpected(error)
        except Exception as error:  # Python would exit with 1, which means evaluated and failed
            code = self._unexpected(error)
        if code != Exit.DONE:
            sys.exit(int(code))

    def _without_tables(self, error: Exception) -> Exit:
        """A database that was never migrated, or cannot be reached, is no reason for a traceback."""
        sentence = "The database cannot be used. Is it running, is its disk full, and did you run manage.py migrate?"
        said = " ".join(str(error).split())  # a server's words come in several lines
        self.output.error("database.unusable", f"{sentence} ({said})", Exit.ERROR, {})
        return Exit.ERROR

    def _unexpected(self, error: Exception) -> Exit:
        """An error of the engine, the assets, a journal or the disk has a code and a sentence; any other one is a
        defect."""
        name, sentence = getattr(error, "code", None), getattr(error, "sentence", None)
        if isinstance(name, str) and isinstance(sentence, str):
            self.output.error(name, sentence, Exit.ERROR, {})
        elif (trouble := disk_trouble(error)) is not None:
            self.output.complain_at_length(f"{trouble.detail}\n")
            self.output.error(trouble.code, trouble.sentence, Exit.ERROR, {})
        else:
            self.output.complain_at_length(traceback.format_exc())
            sentence = f"The command failed unexpectedly ({type(error).__name__}); please report it."
            self.output.error("command.failed", sentence, Exit.ERROR, {})
        return Exit.ERROR

    def _refused(self, error: Exception) -> Exit:
        code = exit_of_error(error)
        name = str(getattr(error, "code", "access.refused"))
        sentence = str(getattr(error, "sentence", error))
        if isinstance(error, PermissionDenied) and self._user == CLI_USER:
            sentence = f"The local operator {CLI_USER} may not do this; name somebody who may with --user NAME."
        extra: dict[str, Any] = {}
        if isinstance(error, DocumentError | BadInput):
            extra = {"problems": [problem.as_json() for problem in error.problems]}
        elif isinstance(error, Blocked):
            extra = {"checks": error.checks}
        elif isinstance(error, NotAccepted):
            extra = {"accept": error.names}
        elif isinstance(error, Changed):
            extra = {"differences": [asdict(difference) for difference in error.differences]}
        self.output.error(name, sentence, code, extra)
        for further in error.problems[1:] if isinstance(error, DocumentError | BadInput) else ():
            self.output.complain(f"also: {further}")
        return code


def exit_of_error(error: Exception) -> Exit:
    """Bad input, missing permission and unknown ids are 2; whatever blocks a start is 3."""
    if isinstance(error, BadInput | DocumentError | IllegalMove | PermissionDenied):
        return Exit.BAD_INPUT
    return Exit.BLOCKED


def acting_user(name: str) -> User:
    """The user a command acts for. ``cli`` is made on first use: a local operator who cannot log in."""
    if name == CLI_USER:
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
