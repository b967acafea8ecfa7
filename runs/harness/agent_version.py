"""Which agent stands in the container? Asked of the installed package itself, before the agent runs."""

import re

from runs.harness.container import Container
from runs.harness.execs import Command, Tail

LIMIT_S = 20.0
OUTPUT_BYTES = 4096
_VERSION = re.compile(r"\A[0-9][0-9A-Za-z.+!_-]{0,60}\Z")

# Follows the command that the adapter will call, on the adapter's own search path, to its interpreter.
_SCRIPT = """
import os, shutil
path = os.path.expanduser("~/.local/bin") + os.pathsep + os.environ.get("PATH", "")
with open(shutil.which("mini-swe-agent", path=path), "rb") as file:
    interpreter = file.readline(4096).decode().removeprefix("#!").strip()
ask = "from importlib.metadata import version; print(version('mini-swe-agent'))"
os.execv(interpreter, [interpreter, "-I", "-c", ask])
"""


def ask_version(container: Container, user: str) -> tuple[str | None, int | None]:
    """(version, exit code) of the agent's package; the version is None when it cannot be told."""
    output = Tail(OUTPUT_BYTES)
    command = Command(("python3", "-I", "-S", "-c", _SCRIPT), user=user, workdir="/")
    ended, _ = container.run(command, limit_s=LIMIT_S, take=output.add)
    said = output.text().strip()
    known = ended.exit_code == 0 and _VERSION.match(said) is not None
    return (said if known else None), ended.exit_code
