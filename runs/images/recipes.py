"""An image's recipe and its hashes. Pure: equal on every machine."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from benchsite.lib.problems import CodedError

RECIPE_SCHEMA = "benchsite.image-recipe/v1"
ImageRole = Literal["agent", "verifier", "gateway"]
ROLES: tuple[ImageRole, ...] = get_args(ImageRole)
FOLDER = Path(__file__).resolve().parent
# What every image starts from and ends with; part of each recipe's identity.
BASE = "base"
# The file in every image that says which recipe it was built from.
MARK_PATH = "/usr/local/lib/benchsite/mark"
# The journal's session of the probe that looks for an image's mark -> that image. Other probes have the verifier's.
MARK_SESSIONS: dict[str, ImageRole] = {f"image-mark-{role}": role for role in ROLES}


class RecipeError(CodedError):
    """A recipe that cannot be read."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One role's recipe. `recipe_sha256` is over all its files and the base's; `content_sha256` over those
    that lock what gets installed (`packages.*.lock`, `requirements.txt`).
    """

    role: ImageRole
    suite: str
    packages: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    command: tuple[str, ...]
    working_directory: str
    recipe_sha256: str
    content_sha256: str
    folder: Path

    @property
    def requirements(self) -> Path:
        """Hash-locked Python requirements; a role may have none."""
        return self.folder / "requirements.txt"

    @property
    def mark(self) -> str:
        """What stands in the image's file MARK_PATH."""
        return mark_of(self.role, self.recipe_sha256)

    def package_lock(self, architecture: str) -> Path:
        """Debian packages for one architecture (`amd64`): `name version architecture sha256` a line."""
        return self.folder / f"packages.{architecture}.lock"


def mark_of(role: ImageRole, recipe_sha256: str) -> str:
    """One line that no other image of ours, and no host, holds."""
    return f"{role} {recipe_sha256}\n"


def read_recipe(role: ImageRole, root: Path = FOLDER) -> Recipe:
    """Read a role's recipe. Raises RecipeError `recipe.missing`, `recipe.unreadable`, `recipe.schema`."""
    folder = root / role
    document = _read_document(folder / "recipe.json")
    if document.get("schema") != RECIPE_SCHEMA or document.get("role") != role:
        raise RecipeError(
            "recipe.schema", f"The recipe of the {role} image is of another kind or version.", str(folder)
        )
    files = _recipe_files(folder) | {f"{BASE}/{name}": path for name, path in _recipe_files(root / BASE).items()}
    return Recipe(
        role=role,
        suite=document["suite"],
        packages=tuple(document["packages"]),
        environment=tuple(sorted(document["environment"].items())),
        command=tuple(document["command"]),
        working_directory=document["working_directory"],
        recipe_sha256=_hash_files(files),
        content_sha256=_hash_files({name: path for name, path in files.items() if _locks_content(name)}),
        folder=folder,
    )


def recipe_identities(root: Path = FOLDER) -> dict[str, dict[str, str]]:
    """role -> {recipe_sha256, content_sha256}, for a bundle's manifest (design 6)."""
    recipes = [read_recipe(role, root) for role in ROLES]
    return {
        recipe.role: {"recipe_sha256": recipe.recipe_sha256, "content_sha256": recipe.content_sha256}
        for recipe in recipes
    }


def _read_document(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RecipeError(
            "recipe.missing",
            f"The recipe {path.parent.name}/{path.name} is not part of this installation.",
            str(error),
        ) from error
    except ValueError as error:
        raise RecipeError(
            "recipe.unreadable", f"The recipe {path.parent.name}/{path.name} is not JSON.", str(error)
        ) from error
    return document


def _recipe_files(folder: Path) -> dict[str, Path]:
    """Relative name -> path of every file that takes part in a build; notes and caches do not."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".pyc", ".md", ".in"}
    }


def _locks_content(name: str) -> bool:
    return name == "requirements.txt" or (name.startswith("packages.") and name.endswith(".lock"))


def _hash_files(files: dict[str, Path]) -> str:
    """SHA-256 of the canonical JSON of name -> SHA-256 of bytes."""
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
