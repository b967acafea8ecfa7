"""Runs `manage.py` commands one after another in one process: a matrix of many cells need not start Django anew.

Each line on standard input is a JSON list of arguments; each line on standard output is `{"code", "out", "err"}`.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from tests.crash.own_database import OwnDatabase
from tests.engine.site import ROOT, Done, GateSite


@dataclass
class ServedSite(GateSite):
    """A site whose commands are run by one process of its own; a command with `changes` gets a process as ever."""

    database: OwnDatabase | None = None
    _server: "subprocess.Popen[str] | None" = field(default=None, repr=False)

    def manage(self, *arguments: str, **changes: str) -> Done:
        if changes:
            return super().manage(*arguments, **changes)
        if self._server is None:
            command = [sys.executable, "-m", "tests.crash.command_server"]
            self._server = subprocess.Popen(
                command, env=self.environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(arguments) + "\n")
        self._server.stdin.flush()
        return Done(**json.loads(self._server.stdout.readline()))

    def values(self, query: str, *values: object) -> list[Any]:
        return super().values(query, *values) if self.database is None else self.database.rows(query, *values)

    def close(self) -> None:
        if self._server is not None and self._server.stdin is not None and self._server.stdout is not None:
            self._server.stdin.close()
            self._server.wait(30)
            self._server.stdout.close()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    import django

    django.setup()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


def _run(arguments: list[str]) -> dict[str, Any]:
    from django.core.management import execute_from_command_line
    from django.db import connections

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            execute_from_command_line(["manage.py", *arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            connections.close_all()
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    main()
