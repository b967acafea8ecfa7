"""Commands called in the tests' own process, as `call_command` does, with what they printed and their code."""

import io
import json
from dataclasses import dataclass
from typing import Any

from django.core.management import call_command


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its one JSON document; fails when there is more or less than one line."""
        [line] = self.out.splitlines()
        document: dict[str, Any] = json.loads(line)
        return document


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def command(name: str, *arguments: str, terminal: bool = False) -> Result:
    out, err = Terminal() if terminal else io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(name, *arguments, stdout=out, stderr=err)
    except SystemExit as left:
        code = int(left.code or 0)
    return Result(code, out.getvalue(), err.getvalue())
