"""Brings the peers here, from the package indexes alone, each into a folder of its own below the script's.

A folder is moved to its place when it is whole, so an installation that was broken off is made anew.
"""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

LITELLM = "litellm[proxy]==1.90.0"
LLAMA = ("xllamacpp==2026.10.11549", "gguf==0.19.0")
CLAUDE_CODE, CLAUDE_CODE_VERSION = "@anthropic-ai/claude-code-linux-x64", "2.1.197"
CODEX, CODEX_VERSION = "@openai/codex", "0.171.0-linux-x64"


def installed(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made by `make` unless it is there."""
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


def python_packages(folder: Path, *packages: str) -> Path:
    """A folder of packages for this interpreter; they are imported with it as their PYTHONPATH."""

    def make(unfinished: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color", "--disable-pip-version-check"]
        subprocess.run([*command, "--no-warn-conflicts", "--target", str(unfinished), *packages], check=True)

    return installed(folder, make)


def npm_package(folder: Path, name: str, version: str) -> Path:
    """What the registry's archive of a package holds; nothing of it is run here."""

    def make(unfinished: Path) -> None:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"]
        subprocess.run(command, cwd=unfinished, check=True, stdout=subprocess.PIPE)
        [archive] = unfinished.glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(unfinished, filter="data")
        archive.unlink()

    return installed(folder, make) / "package"
