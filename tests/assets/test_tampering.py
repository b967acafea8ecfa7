"""A harness environment that is not the locked one is reported by file and refused (design 6)."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchsite.lib.canonical import canonical_sha256
from runs.engine.assets import AssetError, verify_harness
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness import HarnessEnvironment, load_harness
from runs.engine.assets.harness_check import MAX_PROBLEMS
from runs.engine.assets.interpreters import Interpreter
from runs.engine.assets.preparing import harness_state

SITE = "lib/python3.12/site-packages"


def test_an_untouched_environment_has_no_problems(harness: HarnessEnvironment) -> None:
    assert verify_harness(harness) == []


def test_the_lock_names_harbor_by_hash_and_claims_no_equality_with_the_source(harness: HarnessEnvironment) -> None:
    document = harness.lock.document
    assert document["distribution"] == {
        "name": "harbor",
        "version": "0.22.0",
        "sha256": "a" * 64,
        "reviewed_source_commit": "5c364a538e0af19eb58a53fdb895d7c0f974cef5",
        "equality_claimed": False,
    }
    assert document["dependencies"] == [{"name": "docker", "version": "7.2.0", "sha256": "b" * 64}]
    assert "runs/harness/environment.py" in document["adapter"]  # type: ignore[operator]


def write(path: str, content: bytes = b"forged") -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        pytest.param(
            write(f"{SITE}/harbor/__pycache__/job.cpython-312.pyc"),
            f"{SITE}/harbor/__pycache__/job.cpython-312.pyc",
            "harness.bytecode_tampered",
            id="forged bytecode",
        ),
        pytest.param(
            write(f"{SITE}/harbor/job.pyc"), f"{SITE}/harbor/job.pyc", "harness.bytecode_tampered", id="new bytecode"
        ),
        pytest.param(write(f"{SITE}/evil.pth"), f"{SITE}/evil.pth", "harness.path_file_tampered", id="pth"),
        pytest.param(
            write(f"{SITE}/sitecustomize.py"),
            f"{SITE}/sitecustomize.py",
            "harness.startup_module_tampered",
            id="sitecustomize",
        ),
        pytest.param(
            write(f"{SITE}/usercustomize/__init__.py"),
            f"{SITE}/usercustomize",
            "harness.startup_module_tampered",
            id="usercustomize package",
        ),
        pytest.param(
            write(f"{SITE}/runs/harness/environment.py"),
            f"{SITE}/runs/harness/environment.py",
            "harness.adapter_tampered",
            id="adapter",
        ),
        pytest.param(
            write(f"{SITE}/harbor/job.py", b"retries = 9\n"),
            f"{SITE}/harbor/job.py",
            "harness.file_tampered",
            id="one changed file of the same size",
        ),
        pytest.param(write("bin/harbor"), "bin/harbor", "harness.file_tampered", id="script"),
        pytest.param(
            write("pyvenv.cfg", b"include-system-site-packages = true\n"),
            "pyvenv.cfg",
            "harness.file_tampered",
            id="pyvenv.cfg",
        ),
        pytest.param(
            lambda root: (root / SITE / "harbor/job.py").unlink(),
            f"{SITE}/harbor/job.py",
            "harness.file_tampered",
            id="removed file",
        ),
        pytest.param(
            lambda root: ((root / "bin/python").unlink(), (root / "bin/python").symlink_to("/bin/sh")),
            "bin/python",
            "harness.interpreter_tampered",
            id="other interpreter by link",
        ),
    ],
)
def test_tampering_has_its_own_code_and_names_the_file(
    harness: HarnessEnvironment, change: Callable[[Path], object], path: str, code: str
) -> None:
    change(harness.path)
    problems = verify_harness(harness)
    assert (code, path) in [(problem.code, problem.detail) for problem in problems]
    assert all(problem.integrity for problem in problems)
    assert all(path in problem.sentence for problem in problems if problem.detail == path)


def test_a_manifest_that_was_forged_along_is_found(harness: HarnessEnvironment) -> None:
    write(f"{SITE}/evil.pth")(harness.path)
    harness.manifest.write_text(harness.manifest.read_text() + '100644 00 "evil.pth"\n')
    assert [(problem.code, problem.integrity) for problem in verify_harness(harness)] == [
        ("harness.manifest_tampered", True)
    ]


def test_a_manifest_alone_proves_nothing_and_its_loss_hides_nothing(harness: HarnessEnvironment) -> None:
    harness.manifest.unlink()
    assert verify_harness(harness) == []
    write(f"{SITE}/evil.pth")(harness.path)
    assert [(problem.code, problem.integrity) for problem in verify_harness(harness)] == [
        ("harness.manifest_tampered", True)
    ]


def test_a_thousand_changes_are_a_short_report(harness: HarnessEnvironment) -> None:
    for number in range(1000):
        (harness.path / f"extra-{number}").touch()
    problems = verify_harness(harness)
    assert len(problems) == MAX_PROBLEMS + 1
    assert f"{1000 - MAX_PROBLEMS} more files" in problems[-1].sentence and problems[-1].integrity


def test_an_interpreter_of_other_bytes_is_refused(harness: HarnessEnvironment) -> None:
    other = replace(harness.lock.interpreter, sha256="0" * 64)
    changed = replace(harness, lock=replace(harness.lock, interpreter=other))
    assert [problem.code for problem in verify_harness(changed)] == ["harness.interpreter_changed"]


def test_another_adapter_in_this_installation_is_outdated_and_no_tampering(harness: HarnessEnvironment) -> None:
    changed = replace(harness, lock=replace(harness.lock, adapter_sha256="0" * 64))
    assert [problem.code for problem in verify_harness(changed)] == ["harness.adapter_outdated"]


@pytest.mark.parametrize("field", ["harbor", "tree_sha256", "key", "lock_sha256", "schema"])
def test_a_lock_edited_by_hand_is_refused(folder: AssetFolder, harness: HarnessEnvironment, field: str) -> None:
    document = json.loads(folder.harness_lock.read_text())
    document[field] = "0" * 64
    folder.harness_lock.write_text(json.dumps(document))
    with pytest.raises(AssetError) as caught:
        load_harness(folder)
    assert caught.value.code == "harness.lock_changed"


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"lock_sha256": 1}', "[" * 100_000])
def test_a_lock_that_is_no_lock_is_refused(folder: AssetFolder, harness: HarnessEnvironment, text: str) -> None:
    folder.harness_lock.write_text(text)
    with pytest.raises(AssetError) as caught:
        load_harness(folder)
    assert caught.value.code == "harness.lock_changed"


def test_a_lock_of_another_version_says_so(folder: AssetFolder, harness: HarnessEnvironment) -> None:
    document = json.loads(folder.harness_lock.read_text()) | {"schema": "benchsite.harness-lock/v9"}
    del document["lock_sha256"]
    folder.harness_lock.write_text(json.dumps(document | {"lock_sha256": canonical_sha256(document)}))
    with pytest.raises(AssetError) as caught:
        load_harness(folder)
    assert caught.value.code == "harness.lock_schema"


def test_prepare_refuses_a_tampered_environment_and_does_not_repair_it(
    folder: AssetFolder, harness: HarnessEnvironment, interpreter: Interpreter
) -> None:
    write(f"{SITE}/sitecustomize.py")(harness.path)
    with pytest.raises(AssetError) as caught:
        harness_state(folder, interpreter)
    assert caught.value.code == "harness.startup_module_tampered"
    assert (harness.path / SITE / "sitecustomize.py").exists()


def test_prepare_builds_anew_what_is_gone(
    folder: AssetFolder, harness: HarnessEnvironment, interpreter: Interpreter
) -> None:
    shutil.rmtree(harness.path)
    assert harness_state(folder, interpreter) == "absent"
