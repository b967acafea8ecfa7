"""A small folder's files, read within bounds and without following a link, each with size and SHA-256."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchsite.lib.canonical import sha256
from benchsite.lib.problems import Problem, refuse

MAX_FILES = 200
MAX_FILE_BYTES = 1024 * 1024
MAX_TREE_BYTES = 8 * 1024 * 1024
MAX_LEVELS = 10
# pip compiles every Python file that it installs, so this lies beside packaged tasks and is no part of them.
BYTECODE = "__pycache__"
PRODUCT = Path(__file__).resolve().parents[2]
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, order=True)
class FileRecord:
    """A regular file: path relative to the tree (`/` between parts), size in bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(slots=True)
class Tree:
    """What was found. `problems` names every entry that is no regular file or is over a bound."""

    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    empty_folders: list[str] = field(default_factory=list)
    size: int = 0
    left_out: frozenset[str] = frozenset()

    @property
    def records(self) -> tuple[FileRecord, ...]:
        """Sorted by path."""
        return tuple(FileRecord(path, len(data), sha256(data)) for path, data in sorted(self.files.items()))


def read_tree(root: Path) -> Tree:
    """Read a whole small tree; raises DocumentError `tree.unreadable` when the folder itself cannot be read."""
    tree = Tree(left_out=left_out_of(root))
    try:
        descriptor = os.open(root, _DIRECTORY)
    except OSError as error:
        raise refuse(
            "tree.unreadable", "the folder is missing, a link, or cannot be read", detail=str(error)
        ) from error
    try:
        _read_folder(descriptor, "", tree)
    finally:
        os.close(descriptor)
    return tree


def left_out_of(folder: Path) -> frozenset[str]:
    """Names of folders that are no part of what lies in `folder`, and are neither read, copied nor sent.

    Only within the installed product: anywhere else a folder of bytecode is a file too many.
    """
    return frozenset({BYTECODE}) if folder.absolute().is_relative_to(PRODUCT) else frozenset()


def _read_folder(descriptor: int, prefix: str, tree: Tree) -> None:
    if prefix.count("/") > MAX_LEVELS:
        tree.problems.append(Problem(prefix.rstrip("/"), "tree.too_deep", f"more than {MAX_LEVELS} levels of folders"))
        return
    names = sorted(set(os.listdir(descriptor)) - tree.left_out)
    if not names and prefix:
        tree.empty_folders.append(prefix.rstrip("/"))
    for name in names:
        tree.problems.extend(_read_entry(descriptor, name, prefix + name, tree))


def _read_entry(parent: int, name: str, path: str, tree: Tree) -> Iterator[Problem]:
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        child = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            _read_folder(child, f"{path}/", tree)
        finally:
            os.close(child)
    elif stat.S_ISLNK(mode):
        yield Problem(_shown(path), "tree.symlink", "a symbolic link stands where a file or folder should")
    elif not stat.S_ISREG(mode):
        yield Problem(_shown(path), "tree.special_file", "a device, pipe or socket stands where a file should")
    elif len(tree.files) >= MAX_FILES:
        yield Problem(_shown(path), "tree.too_many_files", f"there are more than {MAX_FILES} files")
    else:
        yield from _read_file(parent, name, path, tree)


def _read_file(parent: int, name: str, path: str, tree: Tree) -> Iterator[Problem]:
    descriptor = os.open(name, _FILE, dir_fd=parent)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    tree.size += len(data)
    if len(data) > MAX_FILE_BYTES:
        yield Problem(_shown(path), "tree.oversize", f"the file is larger than {MAX_FILE_BYTES:,} bytes")
    elif tree.size > MAX_TREE_BYTES:
        yield Problem(_shown(path), "tree.oversize", f"the files together are larger than {MAX_TREE_BYTES:,} bytes")
    else:
        tree.files[path] = data


def _shown(path: str) -> str:
    """A path from a disk may hold bytes that are no text."""
    return ascii(path)[1:-1]
