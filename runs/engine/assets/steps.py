"""Programs that build an asset: run as argument lists, bounded in time, their output kept."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from benchsite.lib.disk import FULL
from runs.engine.assets.errors import AssetError

Report = Callable[[str], None]
STEP_TIMEOUT_S = 1800
_TAIL = 4096
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def need_tool(name: str, package: str) -> str:
    """The path of a program. Raises AssetError `assets.tool_missing` naming the package that has it."""
    found = shutil.which(name)
    if found is None:
        raise AssetError(
            "assets.tool_missing",
            f"The program {name} is not installed. Install the package {package} and run prepare again.",
        )
    return found


def confined(*namespaces: str) -> list[str | Path]:
    """What to put before a program that runs as root: namespaces of its own, so that no mount or process of it
    outlives it, and it does not outlive us. `namespaces` are further options of unshare."""
    return [
        need_tool("setpriv", "util-linux"), "--pdeathsig", "KILL",
        need_tool("unshare", "util-linux"), "--mount", "--pid", "--fork", "--kill-child", *namespaces,
    ]  # fmt: skip


def run(
    arguments: list[str | Path], *, code: str, sentence: str, environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:  # fmt: skip
    """Run to the end and return standard output and error together.

    Raises AssetError(code, sentence) with the last 4 KiB of output when it fails, and `assets.disk_full`
    when the output says so.
    """
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=STEP_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise AssetError(code, f"{sentence} It took longer than {STEP_TIMEOUT_S // 60} minutes.") from error
    except OSError as error:
        raise disk_full(error) or AssetError(code, sentence, str(error)) from error
    output = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return output
    if any(words in output for words in _NO_SPACE):
        raise disk_full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) or AssetError(code, sentence)
    raise AssetError(code, sentence, output[-_TAIL:])


def disk_full(error: OSError) -> AssetError | None:
    """The one error for a full disk, or None when `error` is something else."""
    if error.errno not in FULL:
        return None
    return AssetError(
        "assets.disk_full",
        "The disk is full. Free some space for the assets folder and the engine, and run prepare again.",
        str(error),
    )
