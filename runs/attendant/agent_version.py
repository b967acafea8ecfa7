"""The version of the agent in a container, asked of the installed package itself before the agent runs."""

import re

from runs.attendant.container import Container
from runs.attendant.execs import Command, Tail

LIMIT_S = 60.0
OUTPUT_BYTES = 4096
_VERSION = re.compile(r"\A[0-9][0-9A-Za-z.+!_-]{0,60}\Z")

# Follows the command that the adapter will call, on the adapter's own search path, to its package.
_SCRIPT = """
import glob, os
path = [os.path.expanduser("~/.local/bin"), *os.environ.get("PATH", "").split(os.pathsep)]
command = next(c for c in (os.path.join(p, "mini-swe-agent") for p in path) if os.access(c, os.X_OK))
with open(command, "rb") as file:
    interpreter = file.readline(4096).decode().removeprefix("#!").strip()
root = os.path.dirname(os.path.dirname(interpreter))
(found,) = glob.glob(root + "/lib/python3*/site-packages/mini_swe_agent-*.dist-info/METADATA")
with open(found) as file:
    print(next(line.split()[1] for line in file if line.startswith("Version: ")))
"""


def ask_version(container: Container, user: str) -> tuple[str | None, int | None]:
    """(version, exit code) of the agent's package; the version is None when it cannot be told."""
    output = Tail(OUTPUT_BYTES)
    command = Command(("python3", "-I", "-S", "-c", _SCRIPT), user=user, workdir="/")
    ended, _ = container.run(command, limit_s=LIMIT_S, take=output.add)
    said = output.text().strip()
    known = ended.exit_code == 0 and _VERSION.match(said) is not None
    return (said if known else None), ended.exit_code
