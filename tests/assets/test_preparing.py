"""prepare: offline it names everything that is missing, and it never runs twice at once."""

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runs.containers import EngineError
from runs.engine.assets import AssetError, importing, prepare, preparing
from runs.engine.assets import harness as harness_module
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness import HarnessEnvironment, environment_key, load_harness
from runs.engine.assets.interpreters import Interpreter, find_interpreter
from runs.engine.assets.preparing import harness_state
from runs.engine.assets.steps import run
from runs.images.recipes import ROLES


def silent(line: str) -> None:
    pass


@pytest.fixture
def nothing_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that answers and has none of the images."""
    monkeypatch.setattr(preparing, "stale_images", lambda folder: list(ROLES))


@pytest.mark.usefixtures("nothing_built")
def test_offline_every_missing_asset_is_named_and_nothing_is_fetched(
    folder: AssetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.run", lambda *args, **kwargs: pytest.fail("a program was started"))
    monkeypatch.setattr(
        preparing, "current_interpreter", lambda folder: Interpreter("3.12.1", "cpython", "p", "/x", "0")
    )
    with pytest.raises(AssetError) as caught:
        prepare(folder.root, offline=True, report=silent)
    assert (caught.value.code, caught.value.blocked) == ("assets.missing_offline", True)
    assert caught.value.detail.splitlines() == [
        "Harbor and its dependencies",
        "the Debian packages of the agent image",
        "the Python packages of the agent image",
        "the Debian packages of the verifier image",
        "the Debian packages of the gateway image",
        "the Python packages of the gateway image",
    ]
    assert all(name in caught.value.sentence for name in caught.value.detail.splitlines())


def test_a_second_prepare_waits_for_nobody_and_touches_nothing(folder: AssetFolder) -> None:
    (folder.work / "half-built").touch()
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(AssetError) as caught:
            prepare(folder.root, offline=False, report=silent)
    finally:
        os.close(descriptor)
    assert caught.value.code == "assets.busy"
    assert (folder.work / "half-built").exists()


def test_a_stopped_engine_is_one_sentence_with_the_remedy(folder: AssetFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(timeout_s: int) -> None:
        raise EngineError("engine_unreachable", "The container engine cannot be reached.", "refused")

    monkeypatch.setattr(importing, "connect", refuse)
    with pytest.raises(AssetError) as caught:
        prepare(folder.root, offline=False, report=silent)
    assert (caught.value.code, caught.value.blocked) == ("image.engine_unreachable", True)
    assert "Start Docker" in caught.value.sentence


def test_a_full_disk_is_one_sentence_with_the_remedy(folder: AssetFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: AssetFolder) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(preparing, "stale_images", full)
    with pytest.raises(AssetError) as caught:
        prepare(folder.root, offline=False, report=silent)
    assert (caught.value.code, caught.value.blocked) == ("assets.disk_full", True)


def test_too_little_disk_is_said_before_a_build_begins(folder: AssetFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "NEEDED_BYTES", 2**62)
    with pytest.raises(AssetError) as caught:
        preparing.prepare_images(["agent"], folder, None, silent)
    assert caught.value.code == "assets.disk_full"
    assert list(folder.work.iterdir()) == []


def test_a_program_that_reports_a_full_disk_is_believed() -> None:
    with pytest.raises(AssetError) as caught:
        run(
            ["sh", "-c", "echo 'cp: No space left on device'; exit 1"], code="image.build_failed", sentence="It failed."
        )
    assert caught.value.code == "assets.disk_full"


def test_a_program_that_fails_leaves_its_output_as_private_detail() -> None:
    with pytest.raises(AssetError) as caught:
        run(["sh", "-c", "echo why; exit 3"], code="image.build_failed", sentence="It failed.")
    assert (caught.value.code, caught.value.sentence, caught.value.detail) == (
        "image.build_failed",
        "It failed.",
        "why\n",
    )


def fake_python(path: Path, version: str) -> Path:
    path.write_text(
        "#!/bin/sh\n"
        f'echo \'{{"version": "{version}", "implementation": "cpython", "platform": "p", "executable": "{path}"}}\'\n'
    )
    path.chmod(0o755)
    return path


def test_the_first_new_enough_interpreter_is_taken(tmp_path: Path) -> None:
    candidates = [
        tmp_path / "missing",
        fake_python(tmp_path / "old", "3.11.7"),
        fake_python(tmp_path / "new", "3.13.0"),
        fake_python(tmp_path / "later", "3.12.0"),
    ]
    assert find_interpreter(candidates).executable == str(tmp_path / "new")


def test_python_3_11_alone_is_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(AssetError) as caught:
        find_interpreter([fake_python(tmp_path / "old", "3.11.7")])
    assert (caught.value.code, caught.value.blocked) == ("harness.python_too_old", True)
    assert "3.12 or newer" in caught.value.sentence
    assert "3.11.7" in caught.value.detail


def test_another_interpreter_gets_another_environment(interpreter: Interpreter) -> None:
    keys = {
        environment_key(interpreter),
        environment_key(replace(interpreter, sha256="0" * 64)),
        environment_key(replace(interpreter, platform="linux-aarch64")),
        environment_key(replace(interpreter, version="3.13.0")),
    }
    assert len(keys) == 4


def test_an_environment_for_another_interpreter_is_built_beside_the_old_one(
    folder: AssetFolder, harness: HarnessEnvironment, interpreter: Interpreter
) -> None:
    assert harness_state(folder, interpreter) == "absent"
    assert harness.path.is_dir()


class Killed(BaseException):
    """As kill -9: nothing after it is carried out."""


@pytest.mark.parametrize("step", ["install_adapter", "_compile", "tree_manifest", "make_lock"])
def test_a_prepare_that_was_killed_while_it_replaced_the_adapter_is_begun_anew(
    step: str,
    folder: AssetFolder,
    harness: HarnessEnvironment,
    interpreter: Interpreter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment is neither its old lock's nor the new one's, and nobody tampered with it."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for name in ("_compile", "check_wheels"):
        monkeypatch.setattr(harness_module, name, lambda *_: [])
    monkeypatch.setattr(harness_module, "environment_key", lambda _: harness.path.name)
    monkeypatch.setattr(harness_module, step, killed)
    with pytest.raises(Killed):
        harness_module.replace_adapter(folder, interpreter, silent)
    assert harness_state(folder, interpreter) == "absent"


def test_the_environment_of_another_interpreter_stays_locked_while_a_new_one_is_built(
    folder: AssetFolder, harness: HarnessEnvironment, interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(harness_module, "harness_wheels", lambda *_: folder.root)
    monkeypatch.setattr(harness_module, "check_wheels", killed)
    with pytest.raises(Killed):
        harness_module.build_harness(folder, interpreter, Path("pip"), silent)
    assert load_harness(folder).path == harness.path
