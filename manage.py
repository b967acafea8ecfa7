#!/usr/bin/env python
"""benchsite's command line."""

import os
import sys

if sys.version_info < (3, 12):  # noqa: UP036 - a person may start it with an older interpreter
    sys.stderr.write("benchsite needs Python 3.12 or newer; run script/test or script/demo, which find one.\n")
    sys.exit(3)  # Exit.BLOCKED: something is missing

from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
