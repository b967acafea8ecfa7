"""Which pip downloads and installs? One of our own, from the interpreter's bundled copy: no download for it."""

import shutil
from pathlib import Path

from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.steps import run


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
