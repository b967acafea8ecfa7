"""A ZIP of a run is read as its folder is, and one that could be two things is refused whole."""

import io
import os
import stat
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchsite.lib.folder import FileState, Folder
from evidence.management.commands.verify import rederive
from evidence.origin import archive
from evidence.origin.archive import Archive, ArchiveProblem
from evidence.origin.verifying import verify
from tests.origin.signed import KEYS, NOW, signed_run

type Change = Callable[[zipfile.ZipFile], None]


def packed(run: Path, around: str = "benchsite-x/", compression: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        for path in sorted(path for path in run.rglob("*") if path.is_file()):
            target.write(path, around + path.relative_to(run).as_posix())
    return file


def small(change: Change) -> io.BytesIO:
    """A ZIP of two files, changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("run/spec.json", b"{}")
        target.writestr("run/run.json", b"{}")
        change(target)
    return file


def refused(file: io.BytesIO) -> str:
    with pytest.raises(ArchiveProblem) as caught:
        Archive(file)
    return caught.value.code


@pytest.mark.parametrize("around", ["", "benchsite-x/"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_of_a_signed_run_holds_as_its_folder_does(around: str, compression: int, tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    found = verify(Archive(packed(run, around, compression)), KEYS, rederive=rederive, now=NOW)
    assert found.holds
    assert found.rederivable.holds
    assert list(tmp_path.iterdir()) == [run], "nothing was written"


def test_a_changed_file_in_a_zip_is_found_and_mac_leftovers_are_ignored(tmp_path: Path) -> None:
    run = signed_run(tmp_path / "run")
    (run / ".DS_Store").write_bytes(b"x")
    file = packed(run)
    with zipfile.ZipFile(file, "a") as target:
        target.writestr("__MACOSX/benchsite-x/._spec.json", b"x")
    found = verify(Archive(file), KEYS, now=NOW)
    assert found.holds
    assert found.ignored == [".DS_Store", "__MACOSX/benchsite-x/._spec.json"]
    (run / "ledger.jsonl").write_bytes(b"")
    found = verify(Archive(packed(run)), KEYS, now=NOW)
    assert [each.path for each in found.differences] == ["ledger.jsonl"]


def test_it_is_read_like_a_folder(tmp_path: Path) -> None:
    for path, data in {"a/b/c": b"123", "a/d": b"", "e": b"1"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    real, found = Folder(tmp_path), Archive(packed(tmp_path, ""))
    for path in ("a/b/c", "a/d", "e", "a", "a/b", "none", "../e", "/e", ""):
        assert found.read(path, limit=2).state == real.read(path, limit=2).state or path in ("", "../e", "/e")
        assert found.read(path, limit=9).data == real.read(path, limit=9).data
        assert found.sha256(path, limit=9) == real.sha256(path, limit=9) or path in ("", "../e", "/e", "a", "a/b")
        assert found.names(path) == real.names(path) or path.startswith((".", "/"))
    for path in ("a", "a/b", "e", "none"):
        assert found.folders(path, limit=9) == real.folders(path, limit=9)
    for limit in (1, 2, 3, 9):
        assert {entry.path for entry in found.walk(limit=9).entries} == {"a/b/c", "a/d", "e"}
        assert found.walk(limit=limit).truncated == real.walk(limit=limit).truncated
        assert len(found.walk("a", limit=limit).entries) == min(limit, 2)
    with pytest.raises(OSError), found.open("e"):
        pass


def test_nothing_of_it_is_looked_for_on_the_disk() -> None:
    """What a folder learns to be asked, a ZIP must answer for itself."""
    asked = {name for name in vars(Folder) if not name.startswith("_")}
    assert asked <= set(vars(Archive)), "a method of Folder that would read the disk's own root"


NAMES = [
    "/etc/passwd", "../x", "run/../../x", "run//x", "run/./x", "C:/x", "run/x\n", "run/\x1b[2J", "run/x\0.json",
    "run/" + "d/" * 40 + "x", "run/" + "n" * 1100,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_files_in_a_run_is_refused(name: str) -> None:
    assert refused(small(lambda target: _named(target, name))) == "archive.name"


def _named(target: zipfile.ZipFile, name: str) -> None:
    info = zipfile.ZipInfo("x")
    info.filename = info.orig_filename = name
    target.writestr(info, b"x")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["run/spec.json", "run/SPEC.json", "RUN/run.json", "run/spec.json/x", "run"])
def test_a_name_that_stands_for_two_files_is_refused(name: str) -> None:
    assert refused(small(lambda target: target.writestr(name, b"other"))) == "archive.duplicate_name"


def test_two_forms_of_one_name_are_refused() -> None:
    def change(target: zipfile.ZipFile) -> None:
        target.writestr("run/\u00e9", b"1")
        target.writestr("run/e\u0301", b"2")

    assert refused(small(change)) == "archive.duplicate_name"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR])
def test_a_link_or_anything_but_a_file_is_refused(kind: int) -> None:
    def change(target: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("run/link")
        info.external_attr = (kind | 0o777) << 16
        target.writestr(info, b"/etc/passwd")

    assert refused(small(change)) == "archive.link"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_way_of_packing_is_refused(method: int) -> None:
    assert refused(small(lambda target: target.writestr("run/x", b"x", method))) == "archive.encoding"


def test_encryption_is_refused() -> None:
    data = bytearray(small(lambda target: None).getvalue())
    data[data.index(b"PK\1\2") + 8] |= 1
    assert refused(io.BytesIO(bytes(data))) == "archive.encoding"


def test_a_bomb_costs_neither_time_nor_memory() -> None:
    """Four gibibytes of zeros, in a file of a few megabytes."""

    def change(target: zipfile.ZipFile) -> None:
        for number in range(5):
            info = zipfile.ZipInfo(f"run/{number}")
            info.compress_type = zipfile.ZIP_STORED
            target.writestr(info, b"x")
            target.infolist()[-1].file_size = 2**30

    started = time.process_time()
    assert refused(small(change)) == "archive.too_large"
    assert time.process_time() - started < 5


def test_a_member_that_is_larger_than_its_header_says_is_not_read_beyond_it(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("run/x", bytes(10_000_000))
        target.writestr("run/y", b"y")
        target.infolist()[0].file_size = 10
    found = Archive(file)
    assert found.read("x", limit=1000).state is FileState.UNREADABLE
    assert found.sha256("x", limit=1000) == (FileState.UNREADABLE, 0, None)


def test_a_wrong_checksum_is_no_file() -> None:
    data = small(lambda target: None).getvalue().replace(b"{}", b"[]", 1)
    assert Archive(io.BytesIO(data)).read("spec.json", limit=10).state is FileState.UNREADABLE


def test_too_many_files_are_refused_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    Archive(small(lambda target: None))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    assert refused(_three()) == "archive.too_many"


def _three() -> io.BytesIO:
    file = io.BytesIO()
    entry = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 3, 3, 0, 0, 0)
    file.write(entry)
    return file


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b"x",
        lambda data: b"x" + data,
        lambda data: b"#!/bin/sh\n" + data,
        lambda data: data[:-1],
        lambda data: data[:-22],
        lambda data: data[10:],
        lambda data: b"",
        lambda data: data[:30] + data[40:],
        lambda data: data[:-2] + b"\1\0x",
        lambda data: data[:-18] + b"\1\0" + data[-16:],
    ],
)
def test_anything_before_behind_or_missing_is_refused(change: Callable[[bytes], bytes]) -> None:
    assert refused(io.BytesIO(change(small(lambda target: None).getvalue()))) == "archive.damaged"


def test_two_archives_in_one_file_are_refused() -> None:
    first, second = (small(lambda target: None).getvalue() for _ in range(2))
    assert refused(io.BytesIO(first + second)) == "archive.damaged"


def test_two_entries_for_one_place_are_not_both_read() -> None:
    """Overlapping members, of which small bombs are made."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("run/x", b"x")
        info = zipfile.ZipInfo("run/y")
        info.header_offset, info.file_size, info.compress_size = 0, 1, 1
        info.CRC = target.infolist()[0].CRC
        target.filelist.append(info)
        target.NameToInfo["run/y"] = info
    found = Archive(file)
    assert found.read("y", limit=10).state is FileState.UNREADABLE


def test_names_without_the_mark_of_utf8_are_utf8_too() -> None:
    data = small(lambda target: target.writestr("run/é", b"x")).getvalue()
    raw = bytearray(data)
    for at in (raw.index(b"run/\xc3\xa9") - 30 + 6, raw.rindex(b"run/\xc3\xa9") - 46 + 8):
        raw[at + 1] &= 0xF7
    assert Archive(io.BytesIO(bytes(raw))).read("é", limit=10).data == b"x"


def test_whatever_is_done_to_its_bytes_it_is_refused_or_read(tmp_path: Path) -> None:
    data = small(lambda target: target.writestr("run/x", b"x" * 50, zipfile.ZIP_DEFLATED)).getvalue()
    for place in range(len(data)):
        for value in (0, 1, 0xFF, data[place] ^ 0x80):
            changed = bytearray(data)
            changed[place] = value
            try:
                found = Archive(io.BytesIO(bytes(changed)))
            except ArchiveProblem:
                continue
            for entry in found.walk(limit=10).entries:
                found.sha256(entry.path, limit=1000)


def test_it_is_bounded_in_what_it_takes_from_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "sparse.zip"
    with path.open("wb") as file:
        file.truncate(2**40)
    with path.open("rb") as file, pytest.raises(ArchiveProblem):
        Archive(file)
    assert os.path.getsize(path) == 2**40  # noqa: PTH202
