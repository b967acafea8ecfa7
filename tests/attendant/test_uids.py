"""A sandbox's user id is nobody's: no user's, no process's, no other sandbox's; after any death it is free again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runs.attendant import uids as module
from runs.attendant.uids import NoUid, own_uid

ROOT = Path(__file__).parents[2]
RANGE = range(72_000, 72_003)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives another user")


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(module, "LOCKS", tmp_path / "locks")
    monkeypatch.setattr(module, "_SUBORDINATE", (tmp_path / "subuid",))
    yield tmp_path / "locks"


def test_each_gets_another_and_the_last_is_refused_with_a_remedy() -> None:
    with ExitStack() as held:
        taken = [held.enter_context(own_uid(RANGE)).number for _ in RANGE]
        assert sorted(taken) == list(RANGE)
        with pytest.raises(NoUid, match=r"72000-72002 \(BENCHSITE_SANDBOX_UIDS\).* Name more of them"), own_uid(RANGE):
            pass
    with own_uid(RANGE) as again:
        assert again.number in RANGE


def test_another_workers_process_on_this_host_gets_another_until_it_dies(locks: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path; from runs.attendant import uids\n"
        f"uids.LOCKS = Path({str(locks)!r}); held = uids._take(range(72000, 72001)); print(held.number, flush=True)\n"
        "sys.stdin.read()"
    )
    with own_uid(range(72_001, 72_002)):  # makes the folder
        pass
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "72000\n"
        with own_uid(RANGE) as ours:
            assert ours.number == 72_001
        other.send_signal(signal.SIGKILL)
        other.wait()
        with own_uid(RANGE) as ours:
            assert ours.number == 72_000


def test_who_inherited_the_lock_keeps_the_id_when_its_taker_is_gone() -> None:
    with own_uid(RANGE) as first:
        heir = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[first.lock])
    with heir:
        with own_uid(RANGE) as second:
            assert second.number != first.number
        heir.kill()
        heir.wait()
        with own_uid(RANGE) as third:
            assert third.number == first.number
        assert heir.stdin is not None


@needs_root
def test_an_id_that_runs_a_process_is_passed_over() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=72_000) as running:
        with own_uid(RANGE) as ours:
            assert ours.number == 72_001
        running.kill()


@needs_root
def test_the_id_of_a_process_that_has_ended_is_free_before_its_parent_asks() -> None:
    with subprocess.Popen(["true"], user=72_000) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with own_uid(RANGE) as ours:
            assert ours.number == 72_000


def test_an_id_that_is_a_users_or_given_to_one_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_a_name", lambda uid: uid == 72_000)
    (tmp_path / "subuid").write_text("not a line\nsomebody:72001:1\n")
    with own_uid(RANGE) as ours:
        assert ours.number == 72_002
    with pytest.raises(NoUid, match="each has a name"), own_uid(range(72_000, 72_002)):
        pass


def test_users_and_groups_of_this_host_have_names() -> None:
    assert module._has_a_name(os.geteuid()) and not module._has_a_name(72_000)


def test_an_id_that_does_not_exist_in_this_namespace_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_mapped", lambda: iter([range(65_536)]))
    with pytest.raises(NoUid, match="not mapped"), own_uid(RANGE):
        pass


@pytest.mark.parametrize("made", ["link", "file", "open to all"])
def test_a_lock_folder_that_somebody_else_prepared_is_refused(locks: Path, tmp_path: Path, made: str) -> None:
    if made == "link":
        locks.symlink_to(tmp_path)
    elif made == "file":
        locks.touch()
    else:
        locks.mkdir()
        locks.chmod(0o777)
    with pytest.raises(NoUid, match=r"Find out whose it is|cannot be made"), own_uid(RANGE):
        pass


def test_a_lock_that_is_a_link_is_not_followed(locks: Path, tmp_path: Path) -> None:
    locks.mkdir(mode=0o700)
    (locks / "72000").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"), own_uid(RANGE):
        pass
    assert not (tmp_path / "victim").exists()
