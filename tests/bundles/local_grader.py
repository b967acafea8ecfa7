"""A grader without containers, for unit tests: the verifier's own Python program in a temporary root."""

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from runs.documents.bundle.certification import GradeResult

_FOLDER = tempfile.TemporaryDirectory(prefix="local-grader-")


@cache
def _worked(task: Path, script: Path) -> Path:
    """The environment after the script; a script is carried out once, since it does the same each time."""
    app = Path(_FOLDER.name) / f"{task.name}-{script.stem}"
    shutil.copytree(task / "environment", app)
    subprocess.run(["sh", str(script)], cwd=app, check=True, timeout=60)
    return app


class LocalGrader:
    """Runs reference scripts and verifiers of the packaged bundle, which are trusted, on this host."""

    name = "local"

    def work(self, task: Path, script: Path, root: Path) -> None:
        shutil.copytree(_worked(task, script), root / "app")

    def grade(self, task: Path, root: Path) -> GradeResult:
        verifier = root / "logs" / "verifier"
        verifier.mkdir(parents=True)
        program = [sys.executable, "-I", "-S", "-B", str(task / "tests" / "verify.py"), "--root", str(root)]
        try:
            ended = subprocess.run(program, cwd=task / "tests", capture_output=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            return GradeResult(None)
        rewards = {path.name: path.read_bytes() for path in verifier.iterdir()}
        return GradeResult(ended.returncode, rewards, ended.stdout + ended.stderr)
