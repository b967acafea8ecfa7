"""The isolated Harbor environment: made from locked wheels and our adapter; compiled, hashed, locked."""

import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from benchsite.lib.canonical import canonical_sha256
from runs.engine.assets.adapter import PACKAGES, SOURCE, adapter_hashes, adapter_sha256, install_adapter
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness_lock import AGENT, HarnessLock, make_lock, read_lock, write_lock
from runs.engine.assets.interpreters import Interpreter, find_interpreter
from runs.engine.assets.rootfs import pins
from runs.engine.assets.steps import Report, run
from runs.engine.assets.tree import tree_manifest, tree_sha256
from runs.engine.assets.wheels import check_wheels, fetch_wheels, normal_name, read_requirements, wheel_folder
from runs.images.recipes import read_recipe

REQUIREMENTS = SOURCE / "harness" / "requirements.txt"


@dataclass(frozen=True, slots=True)
class HarnessEnvironment:
    """A prepared environment. `python` is its interpreter, to be run with `-I -B`; `path` its folder."""

    path: Path
    python: Path
    lock: HarnessLock
    manifest: Path

    @property
    def lock_sha256(self) -> str:
        return self.lock.lock_sha256


def load_harness(folder: AssetFolder) -> HarnessEnvironment:
    """The locked environment, unverified. Raises AssetError `assets.not_prepared` and those of `read_lock`."""
    lock = read_lock(folder.harness_lock)
    path = folder.harness / lock.key
    if not path.is_dir():
        raise AssetError("assets.not_prepared", "The harness environment is gone. Run: manage.py prepare", str(path))
    return HarnessEnvironment(path, path / "bin" / "python", lock, manifest_path(path))


def manifest_path(environment: Path) -> Path:
    """The list of the tree's files, beside the tree; the lock holds its hash."""
    return environment.with_name(f"{environment.name}.manifest")


def environment_key(interpreter: Interpreter) -> str:
    """Names the folder: requirements + platform + interpreter. The adapter is replaced within it."""
    facts = {
        "requirements": requirements_sha256(),
        "platform": interpreter.platform,
        "interpreter": interpreter.sha256,
        "version": interpreter.version,
    }
    return canonical_sha256(dict(facts))[:32]


def requirements_sha256() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def harness_wheels(folder: AssetFolder, interpreter: Interpreter) -> Path:
    """Where the environment's wheels are cached; they are of this interpreter's version."""
    return wheel_folder(REQUIREMENTS, ".".join(interpreter.version.split(".")[:2]), folder.wheels)


def build_harness(folder: AssetFolder, interpreter: Interpreter, pip: Path, report: Report) -> None:
    """Make the environment anew, at its final place, and lock it last. Downloads what is not cached.

    Raises AssetError `harness.build_failed` and those of the wheels.
    """
    wheels = harness_wheels(folder, interpreter)
    if not wheels.is_dir():
        report("harness: downloading Harbor and its dependencies")
        fetch_wheels(pip, REQUIREMENTS, wheels)
    path = folder.harness / environment_key(interpreter)
    _unlock(folder, path)
    shutil.rmtree(path, ignore_errors=True)
    report("harness: installing")
    check_wheels(read_requirements(REQUIREMENTS.read_text()), wheels)
    _install(Path(interpreter.executable), path, wheels, pip)
    report("harness: compiling")
    _compile(path, _site_packages(path))
    replace_adapter(folder, interpreter, report)


def replace_adapter(folder: AssetFolder, interpreter: Interpreter, report: Report) -> None:
    """Put the adapter in and lock the tree as it is then. Only for an environment just made or just verified."""
    path = folder.harness / environment_key(interpreter)
    packages = [_site_packages(path) / name for name in PACKAGES]
    _unlock(folder, path)
    for package in packages:
        shutil.rmtree(package, ignore_errors=True)
    install_adapter(_site_packages(path))
    _compile(path, *packages)
    _lock(folder, interpreter, path)
    report("harness: ready")


def _unlock(folder: AssetFolder, path: Path) -> None:
    """Take back the lock of the environment that is changed next: one that was half changed by a prepare that was
    killed is built anew, and not taken for one that somebody tampered with."""
    try:
        locked = read_lock(folder.harness_lock).key
    except AssetError:
        return
    if locked == path.name:
        folder.harness_lock.unlink()


def _open_to_readers(path: Path) -> None:
    """The sandbox reads the tree as another user, whatever the umask that it was made under; only we write it."""
    for folder, _, names in os.walk(path):
        for name in (".", *names):
            entry = Path(folder, name)
            mode = entry.lstat().st_mode
            if not stat.S_ISLNK(mode):
                runnable = 0o111 if mode & 0o100 else 0
                entry.chmod(stat.S_IMODE(mode) & ~0o022 | 0o444 | runnable)


def _lock(folder: AssetFolder, interpreter: Interpreter, path: Path) -> None:
    _open_to_readers(path)
    manifest = tree_manifest(path)
    manifest_path(path).write_text(manifest, encoding="ascii")
    hashes = adapter_hashes()
    # The agent that the reviewed image holds; Harbor is told the same version.
    lock = make_lock(
        key=path.name,
        interpreter=interpreter,
        wheels=check_wheels(read_requirements(REQUIREMENTS.read_text()), harness_wheels(folder, interpreter)),
        requirements_sha256=requirements_sha256(),
        agent_version=next(pin.version for pin in pins(read_recipe("agent")) if pin.name == normal_name(AGENT)),
        adapter=hashes,
        adapter_sha256=adapter_sha256(hashes),
        tree_sha256=tree_sha256(manifest),
        files=manifest.count("\n"),
    )
    write_lock(folder.harness_lock, lock)


def _install(interpreter: Path, path: Path, wheels: Path, pip: Path) -> None:
    run(
        [interpreter, "-I", "-m", "venv", "--without-pip", "--symlinks", path],
        code="harness.build_failed",
        sentence="The harness environment could not be made. Install the interpreter's venv package.",
    )
    run(
        [
            pip, "-I", "-m", "pip", "--python", path / "bin" / "python", "install", "--quiet",
            "--no-deps", "--no-compile",
            "--no-index", "--find-links", wheels, "--require-hashes", "--only-binary=:all:", "-r",
            REQUIREMENTS,
        ],
        code="harness.build_failed",
        sentence="Harbor could not be installed into its environment.",
        environment={"PATH": os.defpath, "HOME": str(path.parent), "PIP_CONFIG_FILE": os.devnull},
    )  # fmt: skip


def _compile(path: Path, *what: Path) -> None:
    """Bytecode that is never checked against its source, so that a run neither trusts times nor writes anything."""
    run(
        [
            path / "bin" / "python", "-I", "-m", "compileall", "-q", "-f", "-j", "0",
            "--invalidation-mode", "unchecked-hash", *what,
        ],
        code="harness.build_failed",
        sentence="The harness environment could not be compiled.",
    )  # fmt: skip


def _site_packages(path: Path) -> Path:
    (found,) = path.glob("lib/python3.*/site-packages")
    return found


def current_interpreter(folder: AssetFolder) -> Interpreter:
    """The interpreter that the lock names while it still exists, else the first suitable one."""
    try:
        locked = read_lock(folder.harness_lock).interpreter
    except AssetError:
        return find_interpreter()
    return find_interpreter([Path(locked.executable)]) if Path(locked.executable).exists() else find_interpreter()
