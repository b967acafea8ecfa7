"""A wheel of what git tracks, and a clean environment outside the checkout that holds it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("benchsite", "evidence", "runs", "templates")


def tracked(*paths: str) -> list[str]:
    """What git tracks below `paths` (everything without one) and the work tree still holds."""
    found = subprocess.check_output(["git", "ls-files", "-z", *paths], cwd=ROOT, text=True).split("\0")
    return [name for name in found if name and (ROOT / name).is_file()]


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the tracked files alone, without a network."""
    source = folder / "source"
    for name in tracked():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", folder, source], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def wheel_names(wheel: Path) -> set[str]:
    """The wheel's files, without its own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@dataclass(frozen=True)
class Installed:
    """An environment that has the product from the wheel only; its dependencies are those of this interpreter."""

    folder: Path

    @property
    def site_packages(self) -> Path:
        return next(self.folder.glob("venv/lib/python3.*/site-packages"))

    def run(
        self, *arguments: str, program: str = "benchsite", timeout: float = 120, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program of the environment outside the checkout; `more` adds environment variables."""
        command = [str(self.folder / "venv/bin" / program), *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"} | more
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=timeout
        )

    def python(self, program: str, **more: str) -> str:
        """What a program prints; it must end with exit code 0."""
        done = self.run("-P", "-c", program, program="python", **more)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def install(wheel: Path, folder: Path) -> Installed:
    """Install the wheel by pip, which also compiles it, into an environment of its own."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    installed = Installed(folder)
    python = str(folder / "venv/bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    (installed.site_packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return installed
