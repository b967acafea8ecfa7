"""The job folders that real Harbor releases wrote, unpacked once, and what the published importer made of each."""

import gzip
import json
import shutil
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent / "fixtures" / "harbor-jobs"


@cache
def oracle() -> dict[str, Any]:
    """By folder: what `agento11y-harbor` 0.20.0 made of it, with its network calls replaced."""
    with gzip.open(FIXTURES / "oracle.json.gz") as file:
        found: dict[str, Any] = json.load(file)
    return found


def unpack(into: Path, *names: str) -> Path:
    """The folders with these names, or all; links stay links and lead nowhere that is read."""
    with tarfile.open(FIXTURES / "jobs.tar.gz") as archive:
        members = [each for each in archive if not names or each.name.removeprefix("./").split("/")[0] in names]
        archive.extractall(into, members=members, filter="fully_trusted")  # our own archive, with links out of it
    return into


def copy_of(job: Path, into: Path) -> Path:
    """A copy to change, its links as they are."""
    return Path(shutil.copytree(job, into / job.name, symlinks=True))
