"""The hash of a whole folder: nothing in it can change without being named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.assets.tree import TreeDifference, differences, tree_manifest, tree_sha256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib" / "deep").mkdir(parents=True)
    (tmp_path / "lib" / "module.py").write_text("x = 1\n")
    (tmp_path / "lib" / "deep" / "data").write_bytes(b"\0" * 3_000_000)
    (tmp_path / "link").symlink_to("lib/module.py")
    return tmp_path


def test_the_same_content_elsewhere_has_the_same_hash(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = tmp_path_factory.mktemp("copy") / "tree"
    folder.rename(copy)
    before = tree_manifest(copy)
    copy.rename(folder)
    assert tree_manifest(folder) == before


def test_two_names_with_the_same_content_are_two_lines_in_order(folder: Path) -> None:
    (folder / "a").write_text("same")
    (folder / "b").write_text("same")
    lines = tree_manifest(folder).splitlines()
    assert [line.split()[-1] for line in lines] == sorted(line.split()[-1] for line in lines)
    assert sum('"a"' in line or '"b"' in line for line in lines) == 2


@pytest.mark.parametrize(
    ("change", "path", "kind"),
    [
        pytest.param(lambda f: (f / "lib/module.py").write_text("x = 2\n"), "lib/module.py", "changed", id="byte"),
        pytest.param(lambda f: (f / "lib/module.py").chmod(0o777), "lib/module.py", "changed", id="mode"),
        pytest.param(lambda f: (f / "lib/deep").chmod(0o700), "lib/deep", "changed", id="folder's mode"),
        pytest.param(lambda f: (f / "lib/module.py").unlink(), "lib/module.py", "removed", id="removed"),
        pytest.param(lambda f: (f / "lib/new").mkdir(), "lib/new", "added", id="empty folder"),
        pytest.param(lambda f: (f / "new\nline").touch(), "new\nline", "added", id="name with a newline"),
        pytest.param(
            lambda f: ((f / "link").unlink(), (f / "link").symlink_to("lib/deep")), "link", "changed", id="link"
        ),
        pytest.param(
            lambda f: ((f / "link").unlink(), (f / "link").write_text("x = 1\n")), "link", "changed", id="link to file"
        ),
    ],
)
def test_every_kind_of_change_is_named(folder: Path, change: object, path: str, kind: str) -> None:
    before = tree_manifest(folder)
    assert callable(change)
    change(folder)
    after = tree_manifest(folder)
    assert tree_sha256(after) != tree_sha256(before)
    assert TreeDifference(path, kind) in differences(before, after)  # type: ignore[arg-type]


def test_a_change_that_keeps_size_and_time_is_found(folder: Path) -> None:
    import os

    target = folder / "lib" / "module.py"
    times = target.stat()
    before = tree_manifest(folder)
    target.write_text("x = 9\n")
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert differences(before, tree_manifest(folder)) == [TreeDifference("lib/module.py", "changed")]


@given(content=st.binary(min_size=1, max_size=64), position=st.integers(0, 63), flip=st.integers(1, 255))
def test_any_flipped_byte_changes_the_hash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, position: int, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    (folder / "file").write_bytes(content)
    before = tree_manifest(folder)
    changed = bytearray(content)
    changed[position % len(content)] ^= flip
    (folder / "file").write_bytes(bytes(changed))
    assert tree_sha256(tree_manifest(folder)) != tree_sha256(before)
