"""A real attendant of a real journal, with a harness of the test's own in its sandbox."""

import os
import subprocess
import sys
from pathlib import Path

from runs.engine.trials.trial_process import ATTENDANT
from runs.ownership import Journal
from runs.ownership.processes import PROC

UIDS = range(71_000, 71_004)


def harness_of(path: Path, program: str) -> Path:
    """An environment below `path` whose `runs.harness.launch` is `program`, readable by all."""
    path.mkdir()
    environment = path / "environment"
    subprocess.run([sys._base_executable, "-I", "-m", "venv", "--without-pip", "--symlinks", environment], check=True)
    (packages,) = environment.glob("lib/python3.*/site-packages")
    (packages / "runs/harness").mkdir(parents=True)
    (packages / "runs/harness/launch.py").write_text(program)
    return environment


class Running:
    """A real attendant of a real journal, and everything of its sandbox as the kernel shows it."""

    def __init__(self, directory: Path, harness: Path) -> None:
        self.journal = Journal.create(directory, run_id="0" * 32)
        self.owner = self.journal.read().owner
        (directory / "trials/1").mkdir(parents=True)
        self.log = directory / "log"
        command = [sys.executable, "-I", ATTENDANT, "--run-directory", directory, "--trial", "1"]
        command += ["--harness", harness, "--seconds", "60", "--uids", UIDS[0], UIDS[-1]]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.PIPE, stdout=output, stderr=output,
                env={"PATH": os.environ["PATH"], "BENCHSITE_OWNER": self.owner}, start_new_session=True,
            )  # fmt: skip

    def recorded(self) -> int:
        return len(self.journal.read().processes)

    def launcher(self) -> int:
        """The process that launches the sandbox: the one that is not the attendant."""
        pids = [each.identity.pid for each in self.journal.read().processes]
        return next(pid for pid in pids if pid != self.process.pid)

    def left(self) -> list[int]:
        """Every living process of the owner or of one of the sandboxes' users."""
        return [
            int(place.name)
            for place in PROC.glob("[0-9]*")
            if int(place.name) != self.process.pid and self._is_of_it(place)
        ]

    def _is_of_it(self, place: Path) -> bool:
        try:
            status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
            marked = f"BENCHSITE_OWNER={self.owner}".encode() in (place / "environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return status["State"][0] not in "ZX" and (marked or int(status["Uid"].split()[0]) in UIDS)

    def kill(self) -> None:
        self.process.kill()
        with self.process:
            pass
