"""The root folder of an image: unpacked, installed offline, checked for anything that is not locked."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from runs.engine.assets import debian
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.steps import confined, run
from runs.engine.assets.wheels import Pin, Wheel, check_wheels, normal_name, read_requirements, wheel_folder
from runs.images.recipes import BASE, Recipe, read_recipe

# Debian 12's interpreter.
IMAGE_PYTHON = "3.11"
HOLDER = "usr/local/lib/benchsite/holder"


@dataclass(frozen=True, slots=True)
class Content:
    """What is installed in a root: Debian packages `[name, version, architecture]`, wheels `[name,
    version, SHA-256]`."""

    packages: tuple[tuple[str, str, str], ...]
    wheels: tuple[tuple[str, str, str], ...]


def build_root(recipe: Recipe, folder: AssetFolder, archive: Path) -> tuple[Path, Content]:
    """Build a role's root in the work folder, from cached packages and wheels only. Needs root.

    Raises AssetError `image.root_failed`, `image.build_failed`, `image.content_changed` and those of the checks.
    """
    root = folder.work / f"{recipe.role}-root"
    shutil.rmtree(root, ignore_errors=True)
    debian.unpack_root(recipe, archive, root)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(recipe.folder, root / "recipe" / recipe.role, ignore=ignored)
    shutil.copytree(recipe.folder.parent / BASE, root / "recipe" / BASE, ignore=ignored)
    if recipe.role != "agent":
        shutil.copy2(_holder(folder), root / "recipe" / "holder")
    (root / "recipe" / "mark").write_text(recipe.mark)
    (root / "wheels").mkdir()
    wheels: list[Wheel] = []
    if recipe.requirements.is_file():
        wheels = check_wheels(pins(recipe), wheel_folder(recipe.requirements, IMAGE_PYTHON, folder.wheels))
    for wheel in wheels:
        shutil.copy2(wheel.path, root / "wheels")
    _inside(recipe, root, f"/recipe/{recipe.role}/build.sh")
    if recipe.role == "agent":
        target = _holder(folder)
        partial = target.with_suffix(".partial")
        shutil.copy2(root / HOLDER, partial)
        partial.rename(target)
    shutil.rmtree(root / "recipe" / recipe.role)
    _inside(recipe, root, f"/recipe/{BASE}/finish.sh")
    shutil.rmtree(root / "recipe")
    shutil.rmtree(root / "wheels")
    return root, _content(recipe, root, wheels)


def needs_agent_first(folder: AssetFolder) -> bool:
    """The holder of all images is compiled in the agent's root, the only one with a compiler."""
    return not _holder(folder).is_file()


def pins(recipe: Recipe) -> list[Pin]:
    """The recipe's locked Python distributions; none when it has no requirements."""
    return read_requirements(recipe.requirements.read_text()) if recipe.requirements.is_file() else []


def _inside(recipe: Recipe, root: Path, script: str) -> None:
    """Run a script of the recipe in the root, without a network and without other processes."""
    run(
        [*confined("--net", "--ipc", "--uts"), "chroot", root, "/bin/bash", script],
        code="image.build_failed",
        sentence=f"The {recipe.role} image could not be built: {Path(script).name} failed.",
        environment=dict(recipe.environment) | {"HOME": "/root"},
    )  # fmt: skip


def _holder(folder: AssetFolder) -> Path:
    source = read_recipe("agent").folder.parent / BASE / "holder.c"
    return folder.built_parts / f"holder-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}-{debian.architecture()}"


def _content(recipe: Recipe, root: Path, wheels: list[Wheel]) -> Content:
    """Read what is there, and refuse what the locks do not know."""
    packages = debian.installed_packages(root)
    locked = {(name, version, arch) for name, version, arch, _ in debian.read_package_lock(recipe)}
    allowed = {(wheel.name, wheel.version) for wheel in wheels}
    strangers = [f"{name} {version}" for name, version, arch in packages if (name, version, arch) not in locked]
    strangers += [f"{name} {version}" for name, version in _distributions(root) if (name, version) not in allowed]
    if strangers:
        raise AssetError(
            "image.content_changed",
            f"The {recipe.role} image holds {strangers[0]}, which its lock does not know.",
            "\n".join(strangers),
        )
    return Content(tuple(packages), tuple((wheel.name, wheel.version, wheel.sha256) for wheel in wheels))


def _distributions(root: Path) -> list[tuple[str, str]]:
    """Python distributions outside Debian's own packages."""
    found = []
    for place in ("opt", "usr/local"):
        for metadata in (root / place).rglob("*.dist-info"):
            name, version = metadata.name.removesuffix(".dist-info").split("-")
            found.append((normal_name(name), version))
    return found
