"""A file that somebody asked for is there whole or not at all, also when its command is killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.management import files
from runs.management.files import write_new
from runs.services.refusals import BadInput

WRITER = """
import sys, time
from pathlib import Path
from runs.management.files import write_new

def pieces():
    yield b"half"
    print("written", flush=True)
    time.sleep(60)

write_new(Path(sys.argv[1]), pieces())
"""


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of making it: not every file system can make a file without a name."""
    if request.param == "named":
        monkeypatch.setattr(files, "_open_unnamed", _cannot)
    return str(request.param)


def _cannot(_: Path) -> int:
    raise OSError(95, os.strerror(95))


def _broken() -> Iterator[bytes]:
    yield b"half"
    raise KeyError


@pytest.mark.usefixtures("way")
def test_the_whole_file_gets_its_name_and_is_private(tmp_path: Path) -> None:
    write_new(tmp_path / "file", [b"a", b"", b"bc"])
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.usefixtures("way")
def test_a_source_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_new(tmp_path / "file", _broken())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("way")
def test_a_file_that_appeared_meanwhile_is_never_replaced(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        (tmp_path / "file").write_bytes(b"theirs")
        yield b"ours"

    with pytest.raises(BadInput, match="cannot be made"):
        write_new(tmp_path / "file", pieces())
    assert (tmp_path / "file").read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_killed_command_leaves_nothing(tmp_path: Path) -> None:
    try:
        os.close(files._open_unnamed(tmp_path))
    except OSError:
        pytest.skip("this file system cannot make a file without a name")
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "file")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert list(tmp_path.iterdir()) == []
