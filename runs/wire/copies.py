"""Byte-exact copies of what an archive holds, written below a folder that did not exist before."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """One kept file: `path` relative to what was asked for ("" for a single file), size in bytes."""

    path: str
    size: int
    sha256: str

    def as_json(self) -> dict[str, str | int]:
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


class KeptCopy:
    """Writes one download below `root`, which must not exist yet. Implements `transfer.Place`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: list[Entry] = []
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def directory(self, path: str) -> None:
        (self.root / path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def file(self, path: str, chunks: Iterator[bytes]) -> None:
        target = self.root / path if path else self.root
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        digest, size = hashlib.sha256(), 0
        try:
            with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
                for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
        except BaseException:
            # Half a file is no copy: what is kept is whole or not there.
            target.unlink(missing_ok=True)
            raise
        self.entries.append(Entry(path, size, digest.hexdigest()))

    @property
    def sha256(self) -> str | None:
        """One hash for the whole copy, see `combined_sha256`."""
        return combined_sha256(self.entries)

    def copy_to(self, target: Path) -> None:
        """Give Harbor a copy of its own at `target`; it rewrites files, so never a link to ours."""
        if self.root.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root, target)
            return
        target.mkdir(parents=True, exist_ok=True)
        for source in sorted(self.root.rglob("*")):
            copy = target / source.relative_to(self.root)
            if source.is_dir():
                copy.mkdir(exist_ok=True)
            else:
                shutil.copyfile(source, copy)


def combined_sha256(entries: list[Entry]) -> str | None:
    """One hash for a transfer: the only file's own, else over sorted lines `sha256 size path`."""
    if not entries:
        return None
    if len(entries) == 1 and entries[0].path == "":
        return entries[0].sha256
    lines = (f"{e.sha256} {e.size} {e.path}\n" for e in sorted(entries, key=lambda e: e.path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
