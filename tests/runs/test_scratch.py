"""What a process needs for a moment goes with it, however it ends, and with nobody else."""

import subprocess
import sys
from pathlib import Path

import pytest

from runs.ownership import scratch as scratching
from runs.ownership.scratch import scratch, sweep

MAKER = """
import sys, time
from pathlib import Path
from runs.ownership.scratch import scratch
with scratch(Path(sys.argv[1]), "audit") as place:
    (place / "private").write_text("evidence")
    print(place, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def maker(tmp_path: Path):
    """Another process that has a folder; and that folder."""
    command = [sys.executable, "-c", MAKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_folder_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(KeyError), scratch(tmp_path, "audit") as place:
        assert place.stat().st_mode & 0o777 == 0o700
        (place / "deep").mkdir()
        raise KeyError
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == [".lock"]


def test_what_a_killed_process_left_goes_with_the_next_use(tmp_path: Path, maker) -> None:
    process, left = maker
    process.kill()
    process.wait()
    assert (left / "private").exists()
    with scratch(tmp_path, "export"):
        assert not left.exists()


def test_what_a_living_process_uses_stays(tmp_path: Path, maker) -> None:
    assert sweep(tmp_path) == []
    assert (maker[1] / "private").exists()


def test_a_link_in_its_place_leads_nowhere(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").touch()
    with scratch(tmp_path, "audit"):
        (tmp_path / "scratch" / "link").symlink_to(other)
    sweep(tmp_path)
    assert (other / "kept").exists()


def test_without_a_folder_there_is_nothing_to_sweep_and_none_is_made(tmp_path: Path) -> None:
    assert sweep(tmp_path) == [] and not (tmp_path / scratching.NAME).exists()
