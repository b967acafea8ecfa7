"""The start of benchsite's command line: `manage.py` in a checkout, `benchsite` where it is installed."""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from benchsite.lib.serializing import Exit, error_document

# Commands that only read the files they are given run with settings of their own: a broken site keeps none from them.
FILES_ONLY = ("classify", "verify")
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


def main() -> None:
    """The console script: Django's command line with benchsite's settings and exit codes."""
    try:
        _run_django()
    except KeyboardInterrupt:  # while it was being loaded, or in one of Django's own commands
        _refuse("command.interrupted", "Stopped by Ctrl-C.", Exit.ERROR)


def _run_django() -> None:
    if sys.argv[1:2] and sys.argv[1] in FILES_ONLY:
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchsite.offline"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import ManagementUtility, get_commands
    from django.db import Error as DatabaseFailed

    from benchsite.lib.database import CODE, database_trouble

    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started it closed it, and wants neither words nor a failure for them
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without a character shows its number

    class Utility(ManagementUtility):
        def fetch_command(self, subcommand: str) -> Any:
            """Django would exit with 1 for an unknown one, which means evaluated and failed."""
            if subcommand not in get_commands():
                _refuse_name(self.prog_name, subcommand, get_commands())
            return super().fetch_command(subcommand)

    name = Path(sys.argv[0]).name
    try:
        Utility(["benchsite" if name == "__main__.py" else name, *sys.argv[1:]]).execute()
    except BrokenPipeError:  # whoever read it has gone; Django's own commands let it through
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(int(Exit.ERROR))
    except ImproperlyConfigured as error:  # a setting is wrong; its sentence says which
        _refuse("command.settings", str(error))
    except DatabaseFailed as error:  # in one of Django's own commands, or before one began
        if not (sentence := database_trouble(error)):
            raise
        _refuse(CODE, sentence, Exit.ERROR)
    except ModuleNotFoundError as error:
        module = os.environ["DJANGO_SETTINGS_MODULE"]
        if error.name is None or not module.startswith(error.name):
            raise
        _refuse("command.settings", f"DJANGO_SETTINGS_MODULE is {module!r}, which is not there; leave it out.")


def _refuse_name(started: str, asked: str, known: Iterable[str]) -> NoReturn:
    from django.conf import settings

    _ = settings.INSTALLED_APPS  # settings that cannot be read leave only Django's own commands, and are the reason
    near = get_close_matches(asked, known, n=1)
    remedy = f"Did you mean {near[0]}?" if near else f"{started} help lists them."
    _refuse("command.unknown", f"There is no command {asked!r}. {remedy}")


def _refuse(code: str, sentence: str, exit_code: Exit = Exit.BAD_INPUT) -> NoReturn:
    """Refuse as every command does, before there is one."""
    document = error_document(code, sentence, exit_code)
    with suppress(OSError):  # words that cannot be written change no exit code
        sys.stderr.write(f"{sentence}\n")
    with suppress(OSError):
        sys.stdout.write(f"{json.dumps(document)}\n" if "--json" in sys.argv else "")
        sys.stdout.flush()
    sys.exit(int(exit_code))


def command(*arguments: str) -> list[str]:
    """The argument list that runs one of benchsite's commands in a process of its own, from any folder."""
    # -P: a module that happens to lie in the current folder is not taken for ours.
    start = [str(MANAGE)] if MANAGE.is_file() else ["-P", "-m", "benchsite"]
    return [sys.executable, *start, *arguments]
