"""The comparison of the harness environment with its lock, byte by byte at every use."""

from pathlib import Path, PurePosixPath

from runs.engine.assets.adapter import PACKAGES, adapter_hashes, adapter_sha256
from runs.engine.assets.errors import Problem
from runs.engine.assets.harness import HarnessEnvironment, requirements_sha256
from runs.engine.assets.tree import TreeDifference, differences, file_sha256, tree_manifest, tree_sha256

_REMEDY = "Delete the folder {folder} in the assets' harness folder and run: manage.py prepare"
# More than this is said as a number.
MAX_PROBLEMS = 20
_STARTUP_MODULES = ("sitecustomize", "usercustomize")
_WORDS = {"added": "was added", "removed": "is gone", "changed": "was changed"}


def verify_harness(harness: HarnessEnvironment) -> list[Problem]:
    """Compare tree, interpreter, adapter and requirements with the lock; [] when all agree.

    Codes: `harness.bytecode_tampered`, `path_file_tampered`, `startup_module_tampered`, `adapter_tampered`,
    `interpreter_tampered`, `file_tampered`, `manifest_tampered`, `interpreter_changed`, `adapter_outdated`,
    `requirements_outdated`, `unreadable`.
    """
    tampered = verify_tree(harness)
    return tampered or outdated(harness)


def verify_tree(harness: HarnessEnvironment) -> list[Problem]:
    """What somebody changed since the lock was written."""
    try:
        found = tree_manifest(harness.path)
    except OSError as error:
        return [
            Problem("harness.unreadable", "The harness environment cannot be read. Check its permissions.", str(error))
        ]
    problems = [] if tree_sha256(found) == harness.lock.tree_sha256 else _named(harness, found)
    return problems + _interpreter(harness)


def outdated(harness: HarnessEnvironment) -> list[Problem]:
    """What changed in this installation since the environment was prepared."""
    problems = []
    if adapter_sha256(adapter_hashes()) != harness.lock.adapter_sha256:
        problems.append(
            Problem(
                "harness.adapter_outdated", "The harness holds another version of the adapter. Run: manage.py prepare"
            )
        )
    if requirements_sha256() != harness.lock.document["requirements_sha256"]:
        problems.append(
            Problem(
                "harness.requirements_outdated",
                "The harness has other dependencies than this version. Run: manage.py prepare",
            )
        )
    return problems


def _named(harness: HarnessEnvironment, found: str) -> list[Problem]:
    """The differing files by name, as far as the manifest beside the tree is the locked one."""
    remedy = _REMEDY.format(folder=harness.path.name)
    try:
        locked = harness.manifest.read_text(encoding="ascii")
    except (OSError, ValueError):
        locked = ""
    if tree_sha256(locked) != harness.lock.tree_sha256:
        sentence = f"The harness environment is not the locked one, and neither is its list of files. {remedy}"
        return [Problem("harness.manifest_tampered", sentence, str(harness.manifest), integrity=True)]
    changes = differences(locked, found)
    problems = [_problem(change, remedy) for change in changes[:MAX_PROBLEMS]]
    if len(changes) > MAX_PROBLEMS:
        more = f"{len(changes) - MAX_PROBLEMS} more files of the harness environment differ. {remedy}"
        problems.append(Problem("harness.file_tampered", more, integrity=True))
    return problems


def _problem(change: TreeDifference, remedy: str) -> Problem:
    sentence = f"In the harness environment {change.path} {_WORDS[change.change]}. {remedy}"
    return Problem(f"harness.{_kind(PurePosixPath(change.path))}_tampered", sentence, change.path, integrity=True)


def _kind(path: PurePosixPath) -> str:
    """What a changed path means for whoever starts Python there."""
    if path.name.split(".")[0] in _STARTUP_MODULES:
        return "startup_module"
    if "site-packages" in path.parts:
        package = path.parts[path.parts.index("site-packages") + 1 :][:1]
        if package and package[0] in PACKAGES:
            return "adapter"
    if path.parts[0] == "bin" and path.name.startswith("python"):
        return "interpreter"
    return {".pyc": "bytecode", ".pth": "path_file"}.get(path.suffix, "file")


def _interpreter(harness: HarnessEnvironment) -> list[Problem]:
    locked = harness.lock.interpreter
    executable = Path(locked.executable)
    try:
        same = file_sha256(executable) == locked.sha256 and harness.python.resolve(strict=True) == executable
    except OSError:
        same = False
    if same:
        return []
    sentence = (
        "The Python interpreter under the harness is not the locked one. Delete the harness "
        "lock and run: manage.py prepare"
    )
    return [Problem("harness.interpreter_changed", sentence, str(executable), integrity=True)]
