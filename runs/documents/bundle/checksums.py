"""Harbor's two hashes of a task, computed again from file records, without Harbor.

Harbor 0.22.0 puts a folder hash into `result.json` (`task_checksum`) and a content hash into `lock.json`
(`task.digest`). The gate compares both with Harbor's own for every packaged task.
"""

from collections.abc import Iterable, Mapping

from benchsite.lib.canonical import sha256
from runs.documents.bundle.tree import FileRecord

type _Folder = dict[str, _Folder | str]


def task_checksum(files: Iterable[FileRecord]) -> str:
    """The folder hash of `result.json`: names and content hashes, folder by folder, empty folders ignored."""
    root: _Folder = {}
    for file in files:
        *folders, name = file.path.split("/")
        folder = root
        for part in folders:
            below = folder.setdefault(part, {})
            if isinstance(below, str):
                raise ValueError("a file stands where another file's folder is")
            folder = below
        folder[name] = file.sha256
    return _folder_hash(root)


def content_digest(files: Iterable[FileRecord]) -> str:
    """The content hash of `lock.json` (there with the prefix `sha256:`): each path with its file's hash, in order.

    Equal to Harbor's only when no file is one that Harbor leaves out; those are refused among task files.
    """
    lines = (f"{file.path}\0{file.sha256}\n" for file in sorted(files))
    return sha256("".join(lines).encode())


def _folder_hash(folder: Mapping[str, "_Folder | str"]) -> str:
    return sha256("\0\0".join(sorted(_described(name, entry) for name, entry in folder.items())).encode())


def _described(name: str, entry: "_Folder | str") -> str:
    kind, value = ("data", entry) if isinstance(entry, str) else ("dirhash", _folder_hash(entry))
    return f"{kind}:{value}\0name:{name}"
