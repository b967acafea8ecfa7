"""The steps of prepare: see what is missing, name it or fetch it, build harness and images, and verify."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from runs.containers import EngineError
from runs.engine.assets import debian, wheels
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness import (
    build_harness,
    current_interpreter,
    environment_key,
    harness_wheels,
    load_harness,
    replace_adapter,
)
from runs.engine.assets.harness_check import outdated, verify_tree
from runs.engine.assets.image_lock import LockedImage, read_images, verify_image
from runs.engine.assets.importing import engine, forget_unfinished, import_image
from runs.engine.assets.interpreters import Interpreter
from runs.engine.assets.rootfs import IMAGE_PYTHON, build_root, needs_agent_first, pins
from runs.engine.assets.steps import Report, disk_full
from runs.engine.assets.wheels import own_pip
from runs.images.recipes import ROLES, ImageRole, Recipe, read_recipe

HarnessState = Literal["ready", "adapter", "absent"]


def prepare_assets(folder: AssetFolder, *, offline: bool, report: Report) -> None:
    """Raises AssetError; a full disk anywhere is `assets.disk_full`, a second prepare at once `assets.busy`."""
    try:
        folder.create()
        with _alone(folder):
            shutil.rmtree(folder.work)
            folder.create()
            _prepare(folder, offline, report)
            shutil.rmtree(folder.work)
    except EngineError as error:
        raise AssetError("image.engine_failed", error.sentence, error.detail) from error
    except OSError as error:
        raise disk_full(error) or AssetError(
            "assets.unwritable", "The assets folder cannot be used. Check its owner and permissions.", str(error)
        ) from error


def _prepare(folder: AssetFolder, offline: bool, report: Report) -> None:
    for image_id in forget_unfinished(folder):
        report(f"images: removed {image_id}, which an interrupted prepare left")
    interpreter = current_interpreter(folder)
    state = harness_state(folder, interpreter)
    roles = stale_images(folder)
    # What would have to be downloaded to build these roles, named for a person.
    missing = []
    for recipe in map(read_recipe, roles):
        if not debian.packages_archive(recipe, folder).is_file():
            missing.append(f"the Debian packages of the {recipe.role} image")
        if pins(recipe) and not wheels.wheel_folder(recipe.requirements, IMAGE_PYTHON, folder.wheels).is_dir():
            missing.append(f"the Python packages of the {recipe.role} image")
    if state == "absent" and not harness_wheels(folder, interpreter).is_dir():
        missing.insert(0, "Harbor and its dependencies")
    if missing and offline:
        raise AssetError(
            "assets.missing_offline",
            f"Not here, and not downloaded because of --offline: {'; '.join(missing)}. Run: manage.py prepare",
            "\n".join(missing),
        )
    pip = own_pip(Path(interpreter.executable), folder) if missing or state == "absent" else None
    match state:
        case "absent":
            assert pip is not None
            build_harness(folder, interpreter, pip, report)
        case "adapter":
            replace_adapter(folder, interpreter, report)
        case "ready":
            report("harness: verified")
    prepare_images(roles, folder, pip, report)
    report("images: ready")


def harness_state(folder: AssetFolder, interpreter: Interpreter) -> HarnessState:
    """What must be done for the harness. Raises the AssetError of a tampered one: it is never repaired silently."""
    if not folder.harness_lock.exists():
        return "absent"
    try:
        harness = load_harness(folder)
    except AssetError as error:
        if error.code == "assets.not_prepared":
            return "absent"
        raise
    for problem in verify_tree(harness):
        raise AssetError(problem.code, problem.sentence, problem.detail)
    if harness.path.name != environment_key(interpreter):
        return "absent"
    return "adapter" if outdated(harness) else "ready"


@contextmanager
def _alone(folder: AssetFolder) -> Iterator[None]:
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise AssetError(
            "assets.busy", "Another prepare is at work in this assets folder. Wait until it is done."
        ) from error
    finally:
        os.close(descriptor)


# The agent's root takes 1.5 GB as a folder and as much again in the engine.
NEEDED_BYTES = 4 * 1024**3


def stale_images(folder: AssetFolder) -> list[ImageRole]:
    """The roles that must be built: not locked, gone from the engine, or of another recipe."""
    locked = read_images(folder.image_lock)
    api = engine()
    stale = [role for role in ROLES if not _is_current(api, locked.get(role), read_recipe(role))]
    if stale and "agent" not in stale and needs_agent_first(folder):
        return ["agent", *stale]
    return stale


def prepare_images(roles: list[ImageRole], folder: AssetFolder, pip: Path | None, report: Report) -> None:
    """Build these roles in order and lock each as soon as it is done. `pip` may be None when nothing is missing.

    Raises AssetError; the images that were finished before stay locked.
    """
    if roles:
        free = shutil.disk_usage(folder.root).free
        if free < NEEDED_BYTES:
            raise AssetError(
                "assets.disk_full",
                f"Building the images needs {NEEDED_BYTES // 1024**3} GiB of free disk; "
                f"{free / 1024**3:.1f} GiB are free. "
                "Free some space or move the assets folder (BENCHSITE_ASSETS).",
            )
    for recipe in map(read_recipe, roles):
        if not debian.packages_archive(recipe, folder).is_file():
            report(f"{recipe.role} image: downloading Debian packages")
            debian.fetch_packages(recipe, folder)
        target = wheels.wheel_folder(recipe.requirements, IMAGE_PYTHON, folder.wheels) if pins(recipe) else None
        if pip is not None and target is not None and not target.is_dir():
            report(f"{recipe.role} image: downloading Python packages")
            wheels.fetch_wheels(pip, recipe.requirements, target, python=IMAGE_PYTHON)
        report(f"{recipe.role} image: building")
        root, content = build_root(recipe, folder, debian.packages_archive(recipe, folder))
        report(f"{recipe.role} image: handing it to the engine")
        image = import_image(recipe, root, content, folder)
        shutil.rmtree(root)
        report(f"{recipe.role} image: {image.id}")


def _is_current(api: Any, image: LockedImage | None, recipe: Recipe) -> bool:
    return image is not None and image.is_of(recipe) and verify_image(api, image) is None
