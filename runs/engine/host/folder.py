"""The owned directory of one run, and how files are written in it.

Directories are 0700 and files 0600. Everything but ``work/`` is kept when the run has ended; ``work/`` is
all that a cleanup may delete.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from benchsite.lib.canonical import canonical_bytes
from runs.documents.bundle.tree import left_out_of
from runs.ownership.storage import replace_whole

RUN_FACTS_SCHEMA = "benchsite.run-facts/v1"
SUPERVISION_SCHEMA = "benchsite.supervision/v1"


class FactsDamaged(ValueError):
    """A run's own record holds something else than what was written. It is kept as it is, and judged as unreadable."""


class RunFolder:
    """The paths of one run's directory; makes and replaces files in it, deletes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = path / "spec.json"
        self.manifest = path / "manifest.json"  # the reviewed one: which files a trial should have got
        self.facts = path / "run.json"
        self.ledger = path / "ledger.jsonl"
        self.work = path / "work"

    @classmethod
    def of(cls, data: Path, run_id: str) -> "RunFolder":
        return cls(data / "runs" / run_id)

    def create(self) -> None:
        """Make the directory and its fixed folders. Raises FileExistsError when the run was started before."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700)
        for name in ("tasks", "trials", "evidence", "work", "work/home", "work/tmp"):
            (self.path / name).mkdir(mode=0o700)

    def task(self, name: str) -> Path:
        return self.path / "tasks" / name

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    def trial(self, ordinal: int) -> Path:
        return self.trials / str(ordinal)

    def make_trial(self, ordinal: int) -> Path:
        path = self.trial(ordinal)
        path.mkdir(mode=0o700)
        return path

    def documents(self) -> list[str]:
        """The texts that the run has from its start: spec and manifest, as far as they are there."""
        return [path.read_text(errors="replace") for path in (self.spec, self.manifest) if path.is_file()]

    def read_facts(self) -> dict[str, Any]:
        """Raises OSError, and FactsDamaged when they are not what was written here."""
        try:
            facts = json.loads(self.facts.read_bytes())
        except ValueError as error:
            raise FactsDamaged(str(error)) from error
        if not isinstance(facts, dict) or facts.get("schema") != RUN_FACTS_SCHEMA:
            raise FactsDamaged("another schema")
        return facts

    def update_facts(self, **changes: Any) -> None:
        """Replace the named run-level facts; the file is whole at every instant."""
        write_document(self.facts, {**self.read_facts(), **changes})


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write canonical JSON through a temporary file and a rename, 0600, synced to disk."""
    replace_whole(path, canonical_bytes(document) + b"\n")


def copy_task(source: Path, target: Path) -> None:
    """Copy a task's regular files and folders. A link or a device is not followed: the check of the copy misses it."""
    target.mkdir(mode=0o700)
    left_out = left_out_of(source)
    for entry in sorted(source.rglob("*")):
        path = entry.relative_to(source)
        copy = target / path
        if entry.is_symlink() or left_out.intersection(path.parts):
            continue
        if entry.is_dir():
            copy.mkdir(mode=0o700)
        elif entry.is_file():
            copy.write_bytes(entry.read_bytes())
            copy.chmod(0o700 if os.access(entry, os.X_OK) else 0o600)


def free_bytes(path: Path) -> int:
    """Free bytes of the file system that holds ``path``."""
    return shutil.disk_usage(path).free
