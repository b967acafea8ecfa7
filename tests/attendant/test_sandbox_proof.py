"""Preflight makes the sandbox for real, and names what this host lacks for it with the remedy."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runs.attendant import sandbox, uids
from runs.engine.assets.harness import _open_to_readers
from runs.engine.preflight import sandbox_proof
from runs.engine.preflight.sandbox_proof import prove_sandbox

pytestmark = pytest.mark.harbor_compatibility
UIDS = range(72_010, 72_014)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Path]:
    """An environment that was made under a umask which lets nobody else read."""
    before = os.umask(0o077)
    try:
        subprocess.run([sys._base_executable, "-I", "-m", "venv", "--without-pip", tmp_path / "harness"], check=True)
        (tmp_path / "harness/lib/program").write_text("#!/bin/sh\n")
        (tmp_path / "harness/lib/program").chmod(0o700)
        (tmp_path / "harness/lib/data").write_text("x")
        (tmp_path / "harness/lib/link").symlink_to("/etc/shadow")
    finally:
        os.umask(before)
    return tmp_path / "harness"


def test_a_tree_that_only_its_maker_can_read_is_named_with_the_remedy_and_prepare_opens_it(harness: Path) -> None:
    shadow = Path("/etc/shadow").stat().st_mode
    found = prove_sandbox(harness, UIDS)
    assert (found["made"], found["code"]) == (False, "sandbox.unreadable")
    assert f"cannot read {harness}" in found["detail"]
    assert f"Delete {harness} and run manage.py prepare" in found["detail"]
    _open_to_readers(harness)
    assert prove_sandbox(harness, UIDS) == {"made": True, "own_uid": True, "code": None, "detail": ""}
    modes = {name: (harness / "lib" / name).stat().st_mode & 0o777 for name in (".", "program", "data")}
    assert modes == {".": 0o755, "program": 0o755, "data": 0o644}
    assert Path("/etc/shadow").stat().st_mode == shadow


def test_an_interpreter_that_only_root_can_read_is_named(
    harness: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _open_to_readers(harness)
    interpreter = tmp_path / "interpreter"
    shutil.copytree(Path(sys._base_executable).parent, interpreter / "bin", symlinks=True)
    (interpreter / "bin").chmod(0o700)
    for module in (sandbox, sandbox_proof):
        monkeypatch.setattr(module, "interpreter_of", lambda _: interpreter)
    (harness / "bin/python").unlink()
    (harness / "bin/python").symlink_to(interpreter / "bin" / Path(sys._base_executable).name)
    found = prove_sandbox(harness, UIDS)
    assert found["code"] == "sandbox.unreadable"
    assert f"Run chmod -R a+rX {interpreter}" in found["detail"]


def _taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "_has_a_name", lambda _: True)


def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "LOCKS", Path("/proc/locks"))


@pytest.mark.parametrize(
    ("lack", "code", "said"),
    [
        (_taken, "sandbox.no_uid", "BENCHSITE_SANDBOX_UIDS"),
        (_no_folder, "sandbox.no_uid", "below /run"),
        (lambda patch: patch.setattr(sandbox, "PROGRAMS", ("no-such-program",)), "sandbox.no_program", "no-such"),
    ],
)
def test_what_is_missing_is_named(
    harness: Path,
    monkeypatch: pytest.MonkeyPatch,
    lack: Callable[[pytest.MonkeyPatch], None],
    code: str,
    said: str,
) -> None:
    _open_to_readers(harness)
    lack(monkeypatch)
    found = prove_sandbox(harness, UIDS)
    assert (found["made"], found["own_uid"], found["code"]) == (False, False, code)
    assert said in found["detail"]
