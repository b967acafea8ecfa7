"""What a reference script leaves comes from a container that the bundle's author commands: it stays in its folder."""

import io
import tarfile
from pathlib import Path

import pytest

from benchsite.lib.problems import DocumentError
from runs.engine.grading.certifying import unpack_work

LEVELS = "abcdefghijklmnop"
LONG = "d" * 247


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o755
    return info


def escaping() -> bytes:
    """A chain of links whose resolved path is longer than a path may be: Python's own filter lets it through."""
    members, path = [], "app/output"
    for level in LEVELS:
        members += [
            (member(f"{path}/{LONG}", tarfile.DIRTYPE), b""),
            (member(f"{path}/{level}", tarfile.SYMTYPE, LONG), b""),
        ]
        path = f"{path}/{LONG}"
    last = f"app/output/{'/'.join(LEVELS)}/{'l' * 254}"
    members += [
        (member(last, tarfile.SYMTYPE, "../" * (len(LEVELS) + 2)), b""),
        (member("escape", tarfile.SYMTYPE, f"{last}/.."), b""),
        (member("escape/outside.txt"), b"outside"),
    ]
    return archive(*members)


def test_files_and_folders_are_unpacked(tmp_path: Path) -> None:
    packed = archive((member("app/output", tarfile.DIRTYPE), b""), (member("app/output/tree/a.json"), b"{}"))
    unpack_work(packed, tmp_path)
    assert (tmp_path / "app/output/tree/a.json").read_bytes() == b"{}"


def test_no_chain_of_links_leads_out_of_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(DocumentError):
        unpack_work(escaping(), root)
    assert list(tmp_path.iterdir()) == [root]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_whatever_is_no_file_or_folder_is_refused_by_name(kind: bytes, tmp_path: Path) -> None:
    packed = archive((member("app/output/a"), b"1"), (member("app/output/b", kind, "app/output/a"), b""))
    with pytest.raises(DocumentError) as refused:
        unpack_work(packed, tmp_path)
    assert [problem.code for problem in refused.value.problems] == ["certification.not_a_file"]


@pytest.mark.parametrize("name", ["../outside.txt", "app/../../outside.txt"])
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(DocumentError):
        unpack_work(archive((member(name), b"1")), root)
    assert list(tmp_path.iterdir()) == [root]


def test_bytes_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError):
        unpack_work(b"no archive" * 200, tmp_path)
