"""How do the images get onto this worker? Built from their recipes when the lock or the engine lacks them."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from runs.containers import EngineError, connect, engine_call
from runs.engine.assets import debian, wheels
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.image_lock import LockedImage, read_images, verify_image, write_images
from runs.engine.assets.rootfs import IMAGE_PYTHON, Content, build_root, needs_agent_first, pins
from runs.engine.assets.steps import Report, disk_full
from runs.images.recipes import ROLES, ImageRole, Recipe, read_recipe

LABEL_IMAGE = "benchsite.image"
LABEL_RECIPE = "benchsite.recipe"
IMPORT_TIMEOUT_S = 900
# The agent's root takes 1.5 GB as a folder and as much again in the engine.
NEEDED_BYTES = 4 * 1024**3
_CHUNK = 1024 * 1024
# Two roots of one recipe differ in when they were built, so that is left out of the archive.
_TAR = [
    "tar", "--create", "--sort=name", "--numeric-owner", "--format=posix", "--mtime=@0", "--clamp-mtime",
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "--one-file-system",
]  # fmt: skip


def stale_images(folder: AssetFolder) -> list[ImageRole]:
    """The roles that must be built: not locked, gone from the engine, or of another recipe."""
    locked = read_images(folder.image_lock)
    api = _engine()
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
        image = _import(recipe, root, content)
        shutil.rmtree(root)
        _replace(folder, image)
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


def _import(recipe: Recipe, root: Path, content: Content) -> LockedImage:
    api = _engine(IMPORT_TIMEOUT_S)
    answer = _import_call(api, recipe, root)
    with engine_call("inspect image"):
        seen = api.inspect_image(answer)
    return LockedImage(
        role=recipe.role, id=seen["Id"], layers=tuple(seen["RootFS"]["Layers"]),
        recipe_sha256=recipe.recipe_sha256, content_sha256=recipe.content_sha256, source="debootstrap",
        packages=content.packages, wheels=content.wheels,
    )  # fmt: skip


def _import_call(api: Any, recipe: Recipe, root: Path) -> str:
    process = subprocess.Popen([*_TAR, "--directory", str(root), "."], stdout=subprocess.PIPE)
    try:
        with engine_call("import image"):
            answer = api.import_image(src=_chunks(process), changes=_changes(recipe))
    except EngineError as error:
        raise _import_failed(recipe, error) from error
    finally:
        process.kill()
        process.wait()
    ids = [part for part in str(answer).split('"') if part.startswith("sha256:")]
    if not ids:
        raise AssetError(
            "image.import_failed", f"The engine did not accept the {recipe.role} image.", str(answer)[-4096:]
        )
    return ids[-1]


def _import_failed(recipe: Recipe, error: EngineError) -> AssetError:
    if "no space left" in error.detail.lower():
        return cast(AssetError, disk_full(OSError(28, error.detail)))
    return AssetError(
        "image.import_failed",
        f"The engine did not accept the {recipe.role} image. {error.sentence}",
        error.detail,
    )


def _chunks(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """The archive; a tar that failed ends the request with an error and not with half an image."""
    assert process.stdout is not None
    while chunk := process.stdout.read(_CHUNK):
        yield chunk
    if process.wait() != 0:
        raise OSError("tar could not read the whole root")


def _changes(recipe: Recipe) -> list[str]:
    """The image's configuration as Dockerfile lines."""
    return [
        *(f'ENV {name}="{value}"' for name, value in recipe.environment),
        f"CMD [{', '.join(f'"{part}"' for part in recipe.command)}]",
        f"WORKDIR {recipe.working_directory}",
        f"LABEL {LABEL_IMAGE}={recipe.role} {LABEL_RECIPE}={recipe.recipe_sha256}",
    ]


def _replace(folder: AssetFolder, image: LockedImage) -> None:
    """Lock the new image; drop the one it replaces unless a container still uses it."""
    images = read_images(folder.image_lock)
    before = images.get(image.role)
    write_images(folder.image_lock, images | {image.role: image})
    if before is None or before.id == image.id:
        return
    _drop(_engine(), before.id)


def _drop(api: Any, image_id: str) -> None:
    """Remove an image that this lock no longer names. Ours have no names: one that has was given it by somebody
    who wants to keep it, and removing its id would take that name away."""
    try:
        with engine_call("remove image"):
            if not api.inspect_image(image_id)["RepoTags"]:
                api.remove_image(image_id, force=False, noprune=True)
    except EngineError as error:
        if error.code not in ("engine_absent", "engine_conflict"):
            raise


def _engine(timeout_s: int = 60) -> Any:
    try:
        return connect(timeout_s)
    except EngineError as error:
        raise AssetError(
            "image.engine_unreachable",
            "The container engine cannot be reached. Start Docker, let this account use it, and run prepare again.",
            error.detail,
        ) from error


def _check_disk(folder: AssetFolder) -> None:
    free = shutil.disk_usage(folder.root).free
    if free < NEEDED_BYTES:
        raise AssetError(
            "assets.disk_full",
            f"Building the images needs {NEEDED_BYTES // 1024**3} GiB of free disk; "
            f"{free / 1024**3:.1f} GiB are free. "
            "Free some space or move the assets folder (BENCHSITE_ASSETS).",
        )
