"""Calls commands one after the other in this process, as the command line does, and prints what came of each.

Reads a JSON list of argument lists from stdin; prints a JSON list of [exit code, stdout, stderr]. A locked database is
given up at once, where the product waits for 20 s.
"""

import contextlib
import io
import json
import sys
import traceback
from typing import Any

from django.conf import settings
from django.db import connections

from benchsite.lib import commandline


def called(words: list[str]) -> tuple[int, str, str]:
    """What a process of its own would have ended with; 1 and a traceback for what it would not have caught."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["manage.py", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            commandline.main()
            code: Any = 0
        except SystemExit as left:
            code = left.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    connections.close_all()
    return int(code), out.getvalue(), err.getvalue()


if __name__ == "__main__":
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        database["OPTIONS"]["timeout"] = 0
    json.dump([called(words) for words in json.load(sys.stdin)], sys.stdout)
