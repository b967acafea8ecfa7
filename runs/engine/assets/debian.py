"""An image's Debian packages: debootstrap, with every package checked against the recipe's lock."""

import hashlib
import os
import re
import tarfile
from pathlib import Path
from urllib.parse import unquote

from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.steps import confined, need_tool, run
from runs.images.recipes import Recipe

Package = tuple[str, str, str, str]
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_SHOWN = 5
_PACKAGE = re.compile(r"var/cache/apt/archives/([^_/]+)_([^_/]+)_([^_/]+)\.deb")
_NOTE = re.compile(r"(?:debootstrap|var/lib/apt/lists)/(?!\.)[^/]+")
_PATHS = "debootstrap/debpaths"
_FOLDERS = frozenset(
    {
        "debootstrap", "var", "var/lib", "var/lib/apt", "var/lib/apt/lists", "var/lib/apt/lists/partial",
        "var/cache", "var/cache/apt", "var/cache/apt/archives", "var/cache/apt/archives/partial",
    }
)  # fmt: skip


def architecture() -> str:
    """Debian's name of this machine's architecture."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


def packages_archive(recipe: Recipe, folder: AssetFolder) -> Path:
    """Where the recipe's packages are cached; the name changes with the lock."""
    lock = recipe.package_lock(architecture())
    locked = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else "unlocked"
    return folder.packages / f"{locked[:32]}.tgz"


def fetch_packages(recipe: Recipe, folder: AssetFolder) -> Path:
    """Download the recipe's packages and check each against the lock. Needs a network and root.

    Raises AssetError `image.no_package_lock`, `image.needs_root`, `image.packages_unavailable`,
    `image.packages_changed`.
    """
    locked = read_package_lock(recipe)
    archive = packages_archive(recipe, folder)
    partial = archive.with_name(f"partial-{archive.name}")
    try:
        download_packages(recipe, partial, folder.work / f"{recipe.role}-download")
        _check(recipe, locked, list_packages(partial))
        partial.rename(archive)
    finally:
        partial.unlink(missing_ok=True)
    return archive


def download_packages(recipe: Recipe, archive: Path, scratch: Path) -> None:
    """Make an archive of what the recipe's packages resolve to today, unchecked."""
    run(
        [*_debootstrap(recipe), f"--make-tarball={archive}", recipe.suite, scratch, *_mirror()],
        code="image.packages_unavailable",
        sentence=f"The Debian packages of the {recipe.role} image could not be downloaded. "
        "Check the network, or name a mirror in BENCHSITE_DEBIAN_MIRROR.",
    )


def unpack_root(recipe: Recipe, archive: Path, root: Path) -> None:
    """Install the archived packages into `root`, without a network. The archive is checked again first."""
    _check(recipe, read_package_lock(recipe), list_packages(archive))
    run(
        [*_debootstrap(recipe), f"--unpack-tarball={archive}", recipe.suite, root, *_mirror()],
        code="image.root_failed",
        sentence=f"The root of the {recipe.role} image could not be built by debootstrap.",
    )


def list_packages(archive: Path) -> list[Package]:
    """(name, version, architecture, SHA-256) of every .deb in an archive, sorted.

    The archive is unpacked as the image's root, so whatever else would be left there, or installed from another
    place, is refused. Raises AssetError `image.archive_changed`.
    """
    found = []
    with tarfile.open(archive) as tar:
        for member in tar:
            content = _content_of(tar, member)
            matched = _PACKAGE.fullmatch(member.name)
            if matched:
                digest = hashlib.sha256(content).hexdigest()
                found.append((matched[1], unquote(matched[2]), matched[3], digest))
            elif member.name == _PATHS and not all(map(_is_package_of, content.decode("utf-8", "replace").split("\n"))):
                raise _archive_changed(member.name)
    return sorted(found)


def _content_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """A member's bytes; AssetError unless it is one that debootstrap itself puts into its archive."""
    if member.isdir() and member.name in _FOLDERS:
        return b""
    if not member.isreg() or not (_PACKAGE.fullmatch(member.name) or _NOTE.fullmatch(member.name)):
        raise _archive_changed(member.name)
    file = tar.extractfile(member)
    return b"" if file is None else file.read()


def _is_package_of(line: str) -> bool:
    """Whether a line of debootstrap's list leads from a package's name to that package's own file."""
    name, _, path = line.partition(" ")
    matched = _PACKAGE.fullmatch(path.removeprefix("/"))
    return not line or (matched is not None and matched[1] == name)


def _archive_changed(name: str) -> AssetError:
    return AssetError(
        "image.archive_changed",
        "A cached archive of Debian packages holds something that does not belong there. Delete it in the assets' "
        "cache/packages folder and run prepare again.",
        name,
    )


def read_package_lock(recipe: Recipe) -> list[Package]:
    """The locked packages. Raises AssetError `image.no_package_lock` for an architecture nobody reviewed."""
    lock = recipe.package_lock(architecture())
    if not lock.is_file():
        raise AssetError(
            "image.no_package_lock",
            f"The {recipe.role} image has no reviewed package list for {architecture()}. Use a worker "
            f"of another architecture.",
            str(lock),
        )
    rows = [line.split() for line in lock.read_text().splitlines() if line]
    return sorted((name, version, arch, digest) for name, version, arch, digest in rows)


def installed_packages(root: Path) -> list[tuple[str, str, str]]:
    """(name, version, architecture) of what dpkg has installed in a root, sorted."""
    found = []
    for stanza in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"[A-Z][^ ]*: ", line))
        if fields.get("Status", "").endswith(" installed"):
            found.append((fields["Package"], fields["Version"], fields["Architecture"]))
    return sorted(found)


def _check(recipe: Recipe, locked: list[Package], offered: list[Package]) -> None:
    if locked == offered:
        return
    changed = sorted(set(offered) ^ set(locked))
    names = sorted({name for name, *_ in changed})
    raise AssetError(
        "image.packages_changed",
        f"The packages for the {recipe.role} image are not the reviewed ones ({', '.join(names[:_SHOWN])}"
        f"{' and others' if len(names) > _SHOWN else ''}). Name a mirror or snapshot that has them in "
        f"BENCHSITE_DEBIAN_MIRROR.",
        "\n".join(" ".join(package) for package in changed),
    )


def _debootstrap(recipe: Recipe) -> list[str | Path]:
    program = need_tool("debootstrap", "debootstrap")
    if os.geteuid() != 0:
        raise AssetError(
            "image.needs_root",
            "Building the images with debootstrap needs root. Run prepare as root once; runs do not need it.",
        )
    return [*confined(), program, "--variant=minbase", f"--include={','.join(recipe.packages)}"]


def _mirror() -> list[str]:
    """The configured mirror; without one debootstrap knows its own."""
    mirror = os.environ.get("BENCHSITE_DEBIAN_MIRROR", "")
    return [mirror] if mirror else []
