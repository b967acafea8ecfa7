"""The images of this worker, built from their recipes when the lock or the engine lacks them."""

import shutil
from pathlib import Path
from typing import Any

from runs.engine.assets import debian, wheels
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.image_lock import LockedImage, read_images, verify_image
from runs.engine.assets.importing import engine, import_image
from runs.engine.assets.rootfs import IMAGE_PYTHON, build_root, needs_agent_first, pins
from runs.engine.assets.steps import Report
from runs.images.recipes import ROLES, ImageRole, Recipe, read_recipe

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


def missing_inputs(roles: list[ImageRole], folder: AssetFolder) -> list[str]:
    """What would have to be downloaded to build these roles, named for a person."""
    missing = []
    for recipe in map(read_recipe, roles):
        if not debian.packages_archive(recipe, folder).is_file():
            missing.append(f"the Debian packages of the {recipe.role} image")
        if pins(recipe) and not wheels.wheel_folder(recipe.requirements, IMAGE_PYTHON, folder.wheels).is_dir():
            missing.append(f"the Python packages of the {recipe.role} image")
    return missing


def prepare_images(roles: list[ImageRole], folder: AssetFolder, pip: Path | None, report: Report) -> None:
    """Build these roles in order and lock each as soon as it is done. `pip` may be None when nothing is missing.

    Raises AssetError; the images that were finished before stay locked.
    """
    if roles:
        _check_disk(folder)
    for recipe in map(read_recipe, roles):
        _fetch(recipe, folder, pip, report)
        report(f"{recipe.role} image: building")
        root, content = build_root(recipe, folder, debian.packages_archive(recipe, folder))
        report(f"{recipe.role} image: handing it to the engine")
        image = import_image(recipe, root, content, folder)
        shutil.rmtree(root)
        report(f"{recipe.role} image: {image.id}")


def _is_current(api: Any, image: LockedImage | None, recipe: Recipe) -> bool:
    return image is not None and image.is_of(recipe) and verify_image(api, image) is None


def _fetch(recipe: Recipe, folder: AssetFolder, pip: Path | None, report: Report) -> None:
    if not debian.packages_archive(recipe, folder).is_file():
        report(f"{recipe.role} image: downloading Debian packages")
        debian.fetch_packages(recipe, folder)
    target = wheels.wheel_folder(recipe.requirements, IMAGE_PYTHON, folder.wheels) if pins(recipe) else None
    if pip is not None and target is not None and not target.is_dir():
        report(f"{recipe.role} image: downloading Python packages")
        wheels.fetch_wheels(pip, recipe.requirements, target, python=IMAGE_PYTHON)


def _check_disk(folder: AssetFolder) -> None:
    free = shutil.disk_usage(folder.root).free
    if free < NEEDED_BYTES:
        raise AssetError(
            "assets.disk_full",
            f"Building the images needs {NEEDED_BYTES // 1024**3} GiB of free disk; "
            f"{free / 1024**3:.1f} GiB are free. "
            "Free some space or move the assets folder (BENCHSITE_ASSETS).",
        )
