#!/usr/bin/env python
"""benchsite's command line, from a checkout."""

import sys

if sys.version_info < (3, 12):  # noqa: UP036 - a person may start it with an older interpreter
    sys.stderr.write("benchsite needs Python 3.12 or newer; run script/test or script/demo, which find one.\n")
    sys.exit(3)  # Exit.BLOCKED: something is missing

from benchsite.lib.commandline import main

if __name__ == "__main__":
    main()
