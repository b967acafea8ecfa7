"""Grades `file-tree`: the tidy tree and its manifest, computed again from the verifier's own copy of the inbox."""

import hashlib
import os
import sys

# Isolated Python (-I) does not look beside the script by itself.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from grading import Wrong, list_files, read_file, read_input, read_json, run, same  # noqa: E402


def expect(inputs: str) -> tuple[dict[str, bytes], list[object]]:
    """The content of each kept file by its new path, and the manifest."""
    inbox = os.path.join(inputs, "inbox")
    sources: dict[bytes, list[str]] = {}
    for path in _paths(inbox):
        sources.setdefault(read_input(os.path.join(inbox, path)), []).append(path)
    kept = {_new_path(paths[0]): content for content, paths in sources.items()}
    return kept, [_entry(path, kept[path], sources[kept[path]]) for path in sorted(kept)]


def check(artifacts: str, answer: tuple[dict[str, bytes], list[object]]) -> None:
    """Raise Wrong unless the tree holds exactly the kept files and the manifest describes them."""
    kept, manifest = answer
    if not same(read_json(artifacts, "manifest.json"), manifest):
        raise Wrong("manifest.json does not describe the kept files as asked")
    if list_files(artifacts, "tree") != sorted(kept):
        raise Wrong(f"the files below tree are not {sorted(kept)}")
    for path, content in kept.items():
        if read_file(artifacts, f"tree/{path}") != content:
            raise Wrong(f"the content of tree/{path} changed")


def _paths(inbox: str) -> list[str]:
    walked = os.walk(inbox, onerror=_refuse)
    found = [os.path.join(folder, name) for folder, _, names in walked for name in names]
    return sorted(os.path.relpath(path, inbox) for path in found)


def _refuse(error: OSError) -> None:
    raise error


def _new_path(path: str) -> str:
    return path.lower().replace(" ", "-")


def _entry(path: str, content: bytes, sources: list[str]) -> object:
    digest = hashlib.sha256(content).hexdigest()
    return {"path": path, "size": len(content), "sha256": digest, "sources": sources}


if __name__ == "__main__":
    sys.exit(run(expect, check))
