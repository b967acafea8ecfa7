"""What is sent is exactly the plain files of the host, and the same tree always makes the same archive."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.wire import tar_writer
from runs.wire.failures import TransferFailed
from runs.wire.tar_reader import Limits, unpack
from tests.wire.archives import Memory, chunks

LIMITS = Limits(bytes=1_000_000, files=100)


def tree(root: Path) -> Path:
    (root / "deep" / "er").mkdir(parents=True)
    (root / "test.sh").write_text("#!/bin/sh\n")
    (root / "test.sh").chmod(0o700)
    (root / "deep" / "er" / "data.bin").write_bytes(bytes(700))
    return root


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_a_tree_stands_at_its_target_owned_by_root_with_plain_modes(tmp_path: Path) -> None:
    upload = tar_writer.of_directory("tests", tree(tmp_path), "/tests", LIMITS)
    found = members(b"".join(tar_writer.stream([upload])))
    assert set(found) == {"tests/deep", "tests/deep/er", "tests/test.sh", "tests/deep/er/data.bin"}
    assert found["tests/test.sh"].mode == 0o755
    assert found["tests/deep/er/data.bin"].mode == 0o644
    assert {member.uid for member in found.values()} == {0}


def test_every_file_is_recorded_with_size_and_hash_once_it_was_sent(tmp_path: Path) -> None:
    upload = tar_writer.of_directory("tests", tree(tmp_path), "/tests", LIMITS)
    assert upload.entries == []
    list(tar_writer.stream([upload]))
    recorded = {entry.path: (entry.size, entry.sha256) for entry in upload.entries}
    assert recorded["deep/er/data.bin"] == (700, hashlib.sha256(bytes(700)).hexdigest())


def test_the_same_tree_is_the_same_archive_whatever_its_times(tmp_path: Path) -> None:
    root = tree(tmp_path)
    first = b"".join(tar_writer.stream([tar_writer.of_directory("tests", root, "/tests", LIMITS)]))
    os.utime(root / "test.sh", (1, 1))
    assert b"".join(tar_writer.stream([tar_writer.of_directory("tests", root, "/tests", LIMITS)])) == first


@pytest.mark.parametrize("make", ["file link", "folder link", "fifo"])
def test_what_is_no_plain_file_is_never_sent(tmp_path: Path, make: str) -> None:
    root = tree(tmp_path)
    if make == "file link":
        (root / "link").symlink_to("/etc/passwd")
    elif make == "folder link":
        (root / "link").symlink_to("/etc")
    else:
        os.mkfifo(root / "fifo")
    with pytest.raises(TransferFailed) as caught:
        tar_writer.of_directory("tests", root, "/tests", LIMITS)
    assert caught.value.code in ("transfer.host_link", "transfer.host_special")


@pytest.mark.parametrize("limits", [Limits(bytes=100, files=100), Limits(bytes=10_000, files=3)])
def test_more_than_the_plan_allows_is_not_sent(tmp_path: Path, limits: Limits) -> None:
    with pytest.raises(TransferFailed, match="More than the plan allows"):
        tar_writer.of_directory("tests", tree(tmp_path), "/tests", limits)


def test_a_file_that_grows_while_it_is_sent_is_a_failure(tmp_path: Path) -> None:
    source = tmp_path / "log"
    source.write_text("one")
    upload = tar_writer.of_file("artifacts_in", source, "/app/log", LIMITS)
    source.write_text("one and two")
    with pytest.raises(TransferFailed) as caught:
        list(tar_writer.stream([upload]))
    assert caught.value.code == "transfer.changed"


def test_a_link_put_in_place_of_a_file_after_the_look_is_not_followed(tmp_path: Path) -> None:
    source = tmp_path / "log"
    source.write_text("one")
    upload = tar_writer.of_file("artifacts_in", source, "/app/log", LIMITS)
    source.unlink()
    source.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        list(tar_writer.stream([upload]))


_NAMES = st.from_regex(r"[a-z0-9._-]{1,60}", fullmatch=True).filter(lambda name: name not in (".", ".."))


@settings(max_examples=40)
@given(st.dictionaries(_NAMES, st.binary(max_size=1500), max_size=6), st.integers(1, 4))
def test_what_is_packed_unpacks_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], depth: int
) -> None:
    root = tmp_path_factory.mktemp("tree")
    below = root.joinpath(*["d" * 50] * depth)
    below.mkdir(parents=True)
    for name, data in files.items():
        (below / name).write_bytes(data)
    archive = b"".join(tar_writer.stream([tar_writer.of_directory("tests", root, "/tests", LIMITS)]))
    place = Memory()
    result = unpack(chunks(archive), "/tests", place, LIMITS)
    assert result.complete
    assert result.refusals == []
    assert place.files == {f"{'/'.join(['d' * 50] * depth)}/{name}": data for name, data in files.items()}
