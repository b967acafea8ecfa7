"""The attendant's own program, which writes down every path that it opens, lists, makes, renames or removes."""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from_command = sys.argv[sys.argv.index("--run-directory") + 1]
log = os.open(f"{from_command}/opened.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
EVENTS = {
    "open",
    "os.listdir",
    "os.scandir",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.chmod",
    "os.truncate",
}


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.fsencode(os.path.abspath(arguments[0]))  # noqa: PTH100 - links must stay as they are named
        os.write(log, path.replace(b"\n", b"?") + b"\n")


if __name__ == "__main__":
    program = Path(__file__).resolve().parents[2] / "runs/attendant"
    sys.argv[0] = str(program)
    sys.addaudithook(watch)
    runpy.run_path(str(program / "__main__.py"), run_name="__main__")
