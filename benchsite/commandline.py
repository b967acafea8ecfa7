"""How is benchsite's command line started? As `manage.py` in a checkout, as `benchsite` where it is installed."""

import os
import sys
from pathlib import Path

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"


def main() -> None:
    """The console script: Django's command line with benchsite's settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a setting is wrong; its sentence says which
        sys.stderr.write(f"{error}\n")
        sys.exit(2)  # Exit.BAD_INPUT


def command(*arguments: str) -> list[str]:
    """The argument list that runs one of benchsite's commands in a process of its own, from any folder."""
    # -P: a module that happens to lie in the current folder is not taken for ours.
    start = [str(MANAGE)] if MANAGE.is_file() else ["-P", "-m", "benchsite"]
    return [sys.executable, *start, *arguments]
