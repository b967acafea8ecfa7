"""The one hash of a run's folder: which files it has, and what is in them.

Anybody can make it again. It is the SHA-256 of this canonical JSON (sorted keys, no spaces, ASCII with `\\u` escapes),
the files sorted by the code points of their paths below the folder:

    {"files":[{"path":"journal.json","sha256":"…","size":123},…],"schema":"benchsite.folder-tree/v1"}

What stands there as something else than a plain file, cannot be read or is larger than 64 MiB has null for its hash and
0 for its size: it is part of the tree, and nothing of it is believed. What a desktop system puts beside a copy is no
part of it (`benchsite.lib.foreign_files`); a file of such a name that was evidence is held to the attendant's record.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from benchsite.lib.canonical import Json, canonical_sha256
from benchsite.lib.folder import FileState, Folder
from benchsite.lib.foreign_files import is_foreign

SCHEMA = "benchsite.folder-tree/v1"
MAX_FILES = 40_960
MAX_FILE_BYTES = 64 * 1024 * 1024  # what is larger is read and kept by nobody
MAX_BYTES = 1024 * 1024 * 1024
# Not evidence, or not there on both sides of an export: inputs that the manifest names, what a cleanup deletes, what
# only exists while it is written, what is derived from the rest (below `evidence/`, where the record of redactions is
# none of that), and the lists that an export puts beside the files.
LEFT_OUT = re.compile(
    r"(tasks|work)/.*|journal\.lock|(trials/\d+/|evidence/)?\.[^/]*\.new|evidence/(?!redactions\.json$).*"
    r"|SHA256SUMS|NOT-INCLUDED\.txt",
    re.DOTALL,
)


class TreeTooLarge(ValueError):
    """The folder has more files, or more in them, than a run can have."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file by its path below the folder; `size` in bytes."""

    path: str
    size: int
    sha256: str | None


def tree_files(folder: Folder, *, foreign: bool = False) -> list[TreeFile]:
    """All files of the tree, in its order; `foreign`: also those named as desktop systems do. Raises TreeTooLarge."""
    listing = folder.walk(limit=MAX_FILES)
    if listing.truncated:
        raise TreeTooLarge(f"more than {MAX_FILES:,} files")
    paths = (entry.path for entry in listing.entries)
    found: list[TreeFile] = []
    left = MAX_BYTES
    for path in sorted(path for path in paths if not LEFT_OUT.fullmatch(path) and (foreign or not is_foreign(path))):
        state, size, digest = folder.sha256(path, limit=MAX_FILE_BYTES)
        plain = state in (FileState.OK, FileState.EMPTY)
        found.append(TreeFile(path, size if plain else 0, digest if plain else None))
        left -= found[-1].size
        if left < 0:
            raise TreeTooLarge(f"more than {MAX_BYTES:,} bytes")
    return found


def tree_sha256(files: Iterable[TreeFile]) -> str:
    """The hash of a tree, in whichever order its files are given."""
    listed: list[Json] = [asdict(file) for file in sorted(files, key=lambda file: file.path)]
    return canonical_sha256({"schema": SCHEMA, "files": listed})
