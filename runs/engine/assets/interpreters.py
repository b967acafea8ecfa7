"""The Python that runs the harness: the first that Harbor can use, with its exact identity."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runs.engine.assets.errors import AssetError
from runs.engine.assets.tree import file_sha256

OLDEST = (3, 12)
_NAMES = ("python3.12", "python3.13", "python3.14", "python3")
_PROBE_TIMEOUT_S = 60
_PROBE = (
    "import json, platform, sys, sysconfig; print(json.dumps({'version': platform.python_version(),"
    " 'implementation': sys.implementation.name, 'platform': sysconfig.get_platform(), 'executable': "
    "sys._base_executable}))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`executable` is the real file behind all links; `sha256` is over its bytes."""

    version: str
    implementation: str
    platform: str
    executable: str
    sha256: str


def find_interpreter(candidates: Iterable[Path] | None = None) -> Interpreter:
    """The first candidate of Python 3.12 or newer. Raises AssetError `harness.python_too_old`."""
    seen = []
    for candidate in _candidates() if candidates is None else candidates:
        interpreter = probe(candidate)
        if interpreter is None:
            continue
        if tuple(map(int, interpreter.version.split(".")[:2])) >= OLDEST:
            return interpreter
        seen.append(f"{interpreter.version} at {candidate}")
    raise AssetError(
        "harness.python_too_old",
        "Harbor needs Python 3.12 or newer, and none was found. Install one, put it on PATH, and run prepare again.",
        "; ".join(seen),
    )


def probe(path: Path) -> Interpreter | None:
    """Ask an interpreter who it is; None when it does not answer."""
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _PROBE],
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        facts = json.loads(answer.stdout)
        executable = Path(facts["executable"]).resolve(strict=True)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None
    return Interpreter(
        facts["version"], facts["implementation"], facts["platform"], str(executable), file_sha256(executable)
    )


def _candidates() -> Iterator[Path]:
    """Our own interpreter first: it is already here and new enough wherever benchsite runs."""
    yield Path(sys.executable)
    for name in _NAMES:
        if found := shutil.which(name):
            yield Path(found)
    home = Path.home()
    for versions in (Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions", home / ".local/share/uv/python"):
        yield from sorted(versions.glob("*/bin/python3"), reverse=True)
