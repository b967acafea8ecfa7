"""The image lock of this worker, and its check against the engine."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from benchsite.lib.canonical import JsonObject
from runs.containers import EngineError, engine_call
from runs.engine.assets.errors import AssetError, Problem
from runs.images.recipes import ROLES, ImageRole, Recipe, read_recipe
from runs.ownership.storage import replace_whole

IMAGE_LOCK_SCHEMA = "benchsite.image-lock/v1"


class ImageEngine(Protocol):
    """The one call of docker.APIClient that a check needs."""

    def inspect_image(self, image: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class LockedImage:
    """`id` is the engine's `sha256:…`; `layers` its diff ids in order; `source` the base: `debootstrap`
    or `name@sha256:…`."""

    role: ImageRole
    id: str
    layers: tuple[str, ...]
    recipe_sha256: str
    content_sha256: str
    source: str
    packages: tuple[tuple[str, str, str], ...]
    wheels: tuple[tuple[str, str, str], ...]

    def document(self) -> JsonObject:
        """The image for the worker's row: `image_id`, layers, recipe and content, as plain JSON."""
        document: JsonObject = json.loads(json.dumps(asdict(self)))
        return document | {"image_id": self.id}

    def is_of(self, recipe: Recipe) -> bool:
        return (self.recipe_sha256, self.content_sha256) == (recipe.recipe_sha256, recipe.content_sha256)


@dataclass(frozen=True, slots=True)
class ImageLock:
    agent: LockedImage
    verifier: LockedImage
    gateway: LockedImage

    def of(self, role: ImageRole) -> LockedImage:
        image: LockedImage = getattr(self, role)
        return image

    @property
    def images(self) -> tuple[LockedImage, ...]:
        return tuple(self.of(role) for role in ROLES)


def read_images(path: Path) -> dict[ImageRole, LockedImage]:
    """The locked images that there are, also of an unfinished preparation; {} without a lock.

    Raises AssetError `image.lock_changed` when the document is not as it was written.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise _lock_changed(path) from error
    if not isinstance(document, dict) or document.pop("lock_sha256", None) != _digest(document):
        raise _lock_changed(path)
    if document.get("schema") != IMAGE_LOCK_SCHEMA:
        raise AssetError("image.lock_schema", "The image lock is of another version. Run prepare again.", str(path))
    return {role: _image(role, fields) for role, fields in document["images"].items() if role in ROLES}


def write_images(path: Path, images: dict[ImageRole, LockedImage]) -> None:
    """Replace the lock in one step."""
    document: dict[str, Any] = {
        "schema": IMAGE_LOCK_SCHEMA,
        "images": {role: {k: v for k, v in asdict(image).items() if k != "role"} for role, image in images.items()},
    }
    document["lock_sha256"] = _digest(document)
    replace_whole(path, json.dumps(document, indent=1, sort_keys=True).encode())


def read_image_lock(path: Path) -> ImageLock:
    """The complete lock. Raises AssetError `assets.not_prepared` naming the missing roles, and those of
    `read_images`."""
    images = read_images(path)
    missing = [role for role in ROLES if role not in images]
    if missing:
        raise AssetError(
            "assets.not_prepared",
            f"The {' and '.join(missing)} image is not prepared. Run: manage.py prepare",
            str(path),
        )
    return ImageLock(images["agent"], images["verifier"], images["gateway"])


def verify_images(api: ImageEngine, lock: ImageLock) -> list[Problem]:
    """Compare every locked image with the engine and with the installed recipe; [] when all agree.
    Raises EngineError."""
    return [
        problem for image in lock.images for problem in (verify_image(api, image), _verify_recipe(image)) if problem
    ]


def verify_image(api: ImageEngine, image: LockedImage) -> Problem | None:
    """Does the engine still have exactly this image? Raises EngineError when it cannot be asked."""
    try:
        with engine_call("inspect image"):
            seen = api.inspect_image(image.id)
    except EngineError as error:
        if error.code != "engine_absent":
            raise
        return Problem(
            "image.missing", f"The {image.role} image is gone from the engine. Run: manage.py prepare", image.id
        )
    if seen["Id"] != image.id or tuple(seen["RootFS"]["Layers"]) != image.layers:
        return Problem(
            "image.changed",
            f"The {image.role} image is not the locked one. Run: manage.py prepare",
            f"{image.id} {seen['Id']}",
            integrity=True,
        )
    return None


def _verify_recipe(image: LockedImage) -> Problem | None:
    if image.is_of(read_recipe(image.role)):
        return None
    return Problem(
        "image.recipe_changed",
        f"The recipe of the {image.role} image changed since it was built. Run: manage.py prepare",
        image.id,
        integrity=True,
    )


def _image(role: ImageRole, fields: dict[str, Any]) -> LockedImage:
    lists: dict[str, Any] = {name: tuple(map(tuple, fields[name])) for name in ("packages", "wheels")}
    return LockedImage(**{**fields, **lists, "role": role, "layers": tuple(fields["layers"])})


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _lock_changed(path: Path) -> AssetError:
    return AssetError(
        "image.lock_changed", "The image lock was changed by hand. Delete it and run: manage.py prepare", str(path)
    )
