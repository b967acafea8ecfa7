"""The import of an image into the engine, so that no kill leaves one behind that nobody knows.

Our images have no names. A note in the assets folder says, before the engine is asked, which label the image will
carry and which image it replaces; it goes once the image is locked and the other removed.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from runs.containers import EngineError, connect, engine_call
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.image_lock import LockedImage, read_images, write_images
from runs.engine.assets.rootfs import Content
from runs.engine.assets.steps import disk_full
from runs.images.recipes import Recipe
from runs.ownership.storage import replace_whole

LABEL_IMAGE = "benchsite.image"
LABEL_RECIPE = "benchsite.recipe"
LABEL_IMPORT = "benchsite.import"
IMPORT_TIMEOUT_S = 900
_CHUNK = 1024 * 1024
# Two roots of one recipe differ in when they were built, so that is left out of the archive.
_TAR = [
    "tar", "--create", "--sort=name", "--numeric-owner", "--format=posix", "--mtime=@0", "--clamp-mtime",
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "--one-file-system",
]  # fmt: skip


def import_image(recipe: Recipe, root: Path, content: Content, folder: AssetFolder) -> LockedImage:
    """Make an image of `root`, lock it, and drop the one that it replaces. Raises AssetError and EngineError."""
    label = uuid4().hex
    before = read_images(folder.image_lock).get(recipe.role)
    note = {"label": label, "replaces": before.id if before else None}
    replace_whole(folder.unfinished_import, json.dumps(note).encode())  # on the disk before the engine is asked
    image = _import(recipe, root, content, label)
    write_images(folder.image_lock, read_images(folder.image_lock) | {recipe.role: image})
    forget_unfinished(folder)
    return image


def forget_unfinished(folder: AssetFolder) -> list[str]:
    """Remove what the last import left that no lock names: its own image when it was killed, else the one that it
    replaced. Returns their ids. Raises AssetError and EngineError.
    """
    try:
        note = json.loads(folder.unfinished_import.read_bytes())
    except FileNotFoundError:
        return []
    api = engine()
    with engine_call("list images"):
        found = api.images(filters={"label": f"{LABEL_IMPORT}={note['label']}"}, all=True)
    locked = {image.id for image in read_images(folder.image_lock).values()}
    left = sorted(({image["Id"] for image in found} | {note["replaces"]}) - {None} - locked)
    for image_id in left:
        _drop(api, image_id)
    folder.unfinished_import.unlink()
    return left


def _import(recipe: Recipe, root: Path, content: Content, label: str) -> LockedImage:
    api = engine(IMPORT_TIMEOUT_S)
    answer = _import_call(api, recipe, root, label)
    with engine_call("inspect image"):
        seen = api.inspect_image(answer)
    return LockedImage(
        role=recipe.role, id=seen["Id"], layers=tuple(seen["RootFS"]["Layers"]),
        recipe_sha256=recipe.recipe_sha256, content_sha256=recipe.content_sha256, source="debootstrap",
        packages=content.packages, wheels=content.wheels,
    )  # fmt: skip


def _import_call(api: Any, recipe: Recipe, root: Path, label: str) -> str:
    with subprocess.Popen([*_TAR, "--directory", str(root), "."], stdout=subprocess.PIPE) as process:
        try:
            with engine_call("import image"):
                answer = api.import_image(src=_chunks(process), changes=_changes(recipe, label))
        except EngineError as error:
            raise _import_failed(recipe, error) from error
        finally:
            process.kill()
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
        "image.import_failed", f"The engine did not accept the {recipe.role} image. {error.sentence}", error.detail
    )


def _chunks(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """The archive; a tar that failed ends the request with an error and not with half an image."""
    assert process.stdout is not None
    while chunk := process.stdout.read(_CHUNK):
        yield chunk
    if process.wait() != 0:
        raise OSError("tar could not read the whole root")


def _changes(recipe: Recipe, label: str) -> list[str]:
    """The image's configuration as Dockerfile lines."""
    return [
        *(f'ENV {name}="{value}"' for name, value in recipe.environment),
        f"CMD [{', '.join(f'"{part}"' for part in recipe.command)}]",
        f"WORKDIR {recipe.working_directory}",
        f"LABEL {LABEL_IMAGE}={recipe.role} {LABEL_RECIPE}={recipe.recipe_sha256} {LABEL_IMPORT}={label}",
    ]


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


def engine(timeout_s: int = 60) -> Any:
    """The engine. Raises AssetError `image.engine_unreachable`."""
    try:
        return connect(timeout_s)
    except EngineError as error:
        raise AssetError(
            "image.engine_unreachable",
            f"{error.sentence} Start Docker, let this account use it, and run prepare again.",
            error.detail,
        ) from error
