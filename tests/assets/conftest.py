"""A small environment that looks like a prepared harness, with its real lock and manifest."""

import sys
from pathlib import Path

import pytest

from runs.engine.assets.adapter import adapter_hashes, adapter_sha256, install_adapter
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness import HarnessEnvironment, load_harness, manifest_path, requirements_sha256
from runs.engine.assets.harness_lock import make_lock, write_lock
from runs.engine.assets.interpreters import Interpreter
from runs.engine.assets.tree import file_sha256, tree_manifest, tree_sha256
from runs.engine.assets.wheels import Wheel

KEY = "0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path) -> AssetFolder:
    assets = AssetFolder(tmp_path / "assets")
    assets.create()
    return assets


@pytest.fixture
def interpreter() -> Interpreter:
    executable = Path(sys.executable).resolve()
    return Interpreter("3.12.1", "cpython", "linux-x86_64", str(executable), file_sha256(executable))


@pytest.fixture
def harness(folder: AssetFolder, interpreter: Interpreter) -> HarnessEnvironment:
    """A locked environment of a few files, as `prepare` would have left it."""
    path = folder.harness / KEY
    site = path / "lib" / "python3.12" / "site-packages"
    (site / "harbor" / "__pycache__").mkdir(parents=True)
    (site / "harbor" / "job.py").write_text("retries = 0\n")
    (site / "harbor" / "__pycache__" / "job.cpython-312.pyc").write_bytes(b"compiled")
    install_adapter(site)
    (path / "bin").mkdir()
    (path / "bin" / "python").symlink_to(interpreter.executable)
    (path / "bin" / "harbor").write_text("#!/bin/sh\n")
    (path / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    lock_as_it_is(folder, interpreter)
    return load_harness(folder)


def lock_as_it_is(folder: AssetFolder, interpreter: Interpreter) -> None:
    path = folder.harness / KEY
    manifest = tree_manifest(path)
    manifest_path(path).write_text(manifest)
    hashes = adapter_hashes()
    lock = make_lock(
        key=KEY,
        interpreter=interpreter,
        wheels=[Wheel("docker", "7.2.0", "b" * 64, path), Wheel("harbor", "0.22.0", "a" * 64, path)],
        requirements_sha256=requirements_sha256(),
        agent_version="2.4.6",
        adapter=hashes,
        adapter_sha256=adapter_sha256(hashes),
        tree_sha256=tree_sha256(manifest),
        files=manifest.count("\n"),
    )
    write_lock(folder.harness_lock, lock)
