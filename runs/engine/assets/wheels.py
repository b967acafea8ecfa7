"""The wheels that a requirements file locks: pip downloads them, and each is checked again."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.steps import run
from runs.engine.assets.tree import file_sha256

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# The newest glibc that the wheels of an image may ask for: Debian 12 has 2.36.
_GLIBC_MINORS = (36, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)


@dataclass(frozen=True, slots=True)
class Pin:
    """One locked distribution; any of `hashes` (SHA-256) may be installed."""

    name: str
    version: str
    hashes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    version: str
    sha256: str
    path: Path


def read_requirements(text: str) -> list[Pin]:
    """The pins of a requirements file made with --generate-hashes. Raises AssetError `assets.requirements`."""
    pins = []
    for entry in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        line = entry.strip()
        if not line or line.startswith("#"):
            continue
        matched = _PIN.match(line)
        hashes = frozenset(_HASH.findall(line))
        if not matched or not hashes:
            raise AssetError(
                "assets.requirements", "A requirements file has a line without a version and a hash.", line[:200]
            )
        pins.append(Pin(normal_name(matched[1]), matched[2], hashes))
    return pins


def normal_name(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def check_wheels(pins: Iterable[Pin], folder: Path) -> list[Wheel]:
    """One wheel per pin, each with a locked hash, and nothing else in the folder.

    Raises AssetError `assets.wheel_missing`, `assets.wheel_changed`.
    """
    found = {}
    for path in sorted(folder.iterdir()):
        name, version = path.name.split("-")[:2]
        found[normal_name(name)] = Wheel(normal_name(name), version, file_sha256(path), path)
    wheels = []
    for pin in pins:
        wheel = found.pop(pin.name, None)
        if wheel is None:
            raise AssetError(
                "assets.wheel_missing",
                f"The wheel of {pin.name} {pin.version} is missing. Run prepare again.",
                str(folder),
            )
        if wheel.sha256 not in pin.hashes:
            raise _changed(wheel)
        wheels.append(wheel)
    for wheel in found.values():
        raise _changed(wheel)
    return wheels


def wheel_folder(requirements: Path, python: str, cache: Path) -> Path:
    """Where the wheels of a requirements file are cached, by its bytes and the target."""
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    return cache / f"{digest[:16]}-{python}-{os.uname().machine}"


def fetch_wheels(pip: Path, requirements: Path, folder: Path, *, python: str | None = None) -> None:
    """Download every locked wheel into `folder` (made whole or not at all).

    `python` is the target's `3.11` when it is not pip's own interpreter. pip's and SSL's environment
    variables count. Raises AssetError `assets.download_failed`.
    """
    partial = folder.with_name(f"partial-{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    run(
        [
            pip, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:",
            *_target(python), "-r", requirements, "-d", partial,
        ],
        code="assets.download_failed",
        sentence="The Python packages could not be downloaded. Check the network and pip's settings, "
        "and run prepare again.",
    )  # fmt: skip
    partial.rename(folder)


def _target(python: str | None) -> list[str]:
    if python is None:
        return []
    machine = os.uname().machine
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    if machine == "x86_64":
        platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    else:
        platforms += [f"manylinux2014_{machine}"]
    abi = f"cp{python.replace('.', '')}"
    flags = [f"--implementation=cp --python-version={python} --abi={abi} --abi=abi3 --abi=none"]
    flags += [f"--platform={platform}" for platform in platforms]
    return " ".join(flags).split()


def _changed(wheel: Wheel) -> AssetError:
    return AssetError(
        "assets.wheel_changed",
        f"The cached wheel of {wheel.name} is not the locked one. Delete it and run prepare again.",
        f"{wheel.path} {wheel.sha256}",
    )


def own_pip(interpreter: Path, folder: AssetFolder) -> Path:
    """The Python of a virtual environment that has pip. Raises AssetError `assets.no_pip`."""
    python = folder.pip / "bin" / "python"
    if python.exists():
        return python
    partial = folder.pip.with_name("partial-pip")
    shutil.rmtree(partial, ignore_errors=True)
    run(
        [interpreter, "-I", "-m", "venv", partial],
        code="assets.no_pip",
        sentence="A virtual environment with pip could not be made. Install the interpreter's venv package "
        "(python3-venv on Debian).",
    )
    partial.rename(folder.pip)
    return python
