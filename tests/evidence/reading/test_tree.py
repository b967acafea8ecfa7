"""The hash of a run's folder: derived again by hand, and changed by whatever changes the evidence."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchsite.lib.folder import Folder
from evidence.reading import tree
from evidence.reading.tree import TreeFile, TreeTooLarge, tree_files, tree_sha256

REAL = Path(__file__).parents[2] / "fixtures" / "real-run"


def hash_of(directory: Path) -> str:
    return tree_sha256(tree_files(Folder(directory)))


def test_anybody_can_make_the_hash_again() -> None:
    files = sorted(
        (path.relative_to(REAL).as_posix(), path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in REAL.rglob("*")
        if path.is_file()
    )
    document = {
        "files": [{"path": path, "sha256": sha256, "size": size} for path, size, sha256 in files],
        "schema": "benchsite.folder-tree/v1",
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert hash_of(REAL) == hashlib.sha256(text.encode("ascii")).hexdigest()


def test_the_order_in_which_files_are_given_does_not_count() -> None:
    files = tree_files(Folder(REAL))
    assert tree_sha256(reversed(files)) == tree_sha256(files)


@pytest.mark.parametrize(
    "path",
    ["tasks/t/x", "work/home/x", "journal.lock", ".run.json.new", "trials/1/.config.json.new", "evidence/suite.json",
     "evidence/.redactions.json.new", "SHA256SUMS", "NOT-INCLUDED.txt"],
)  # fmt: skip
def test_what_is_no_evidence_or_not_in_every_copy_is_left_out(path: str, tmp_path: Path) -> None:
    copy = shutil.copytree(REAL, tmp_path / "run")
    (copy / path).parent.mkdir(parents=True, exist_ok=True)
    (copy / path).write_bytes(b"x")
    assert hash_of(copy) == hash_of(REAL)


def _write(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda run: (run / "ledger.jsonl").write_bytes((run / "ledger.jsonl").read_bytes()[:-1] + b" "),
    "a name": lambda run: (run / "trials/1/harbor.log").rename(run / "trials/1/harbor.log2"),
    "a file more": lambda run: (run / "trials/1/kept/more").write_bytes(b""),
    "a file less": lambda run: (run / "trials/2/supervision.json").unlink(),
    "a link": lambda run: (run / "trials/1/kept/link").symlink_to("verifier/reward.json"),
    "a pipe": lambda run: os.mkfifo(run / "trials/1/kept/pipe"),
    "a record of redactions": lambda run: _write(run / "evidence/redactions.json"),
    "a name that is no text": lambda run: (run / os.fsdecode(b"trials/1/kept/\xff")).write_bytes(b""),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_the_evidence_changes_the_hash(change: Callable[[Path], object], tmp_path: Path) -> None:
    copy = shutil.copytree(REAL, tmp_path / "run")
    change(copy)
    assert hash_of(copy) != hash_of(REAL)


def test_a_file_larger_than_anybody_reads_is_there_without_a_hash(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(tree.MAX_FILE_BYTES + 1)
    assert tree_files(Folder(tmp_path)) == [TreeFile("large", 0, None)]


@pytest.mark.parametrize(("bound", "most"), [("MAX_FILES", 1), ("MAX_BYTES", 2)])
def test_a_folder_of_too_much_has_no_hash(
    bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, bound, most)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(TreeTooLarge):
        hash_of(tmp_path)
