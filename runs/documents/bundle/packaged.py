"""A bundle's folder, read and rebuilt, and where the bundles that come with benchsite are.

A folder of a bundle that has its own profile holds it as `profile.json`, bound to the built manifest.
"""

import json
from pathlib import Path

from benchsite.lib.canonical import as_object, content_sha256, load_object
from benchsite.lib.problems import refuse
from runs.documents.bundle.manifest import LoadedBundle, Recipes, build_manifest, load_manifest, manifest_bytes
from runs.documents.names import task_name_problem
from runs.documents.profile.loading import LoadedProfile, load_profile

PACKAGED = Path(__file__).resolve().parents[2] / "bundles"
ENVIRONMENT_SMOKE = PACKAGED / "environment-smoke"


def packaged_folder(name: str) -> Path:
    """The folder of a packaged bundle; raises DocumentError `bundle.unknown`."""
    folder = PACKAGED / name
    if task_name_problem(name) or not (folder / "bundle.json").is_file():
        raise refuse("bundle.unknown", "no bundle of this name comes with benchsite", "name")
    return folder


def read_bundle(folder: Path) -> LoadedBundle:
    """The built manifest in a folder; raises DocumentError."""
    return load_manifest(_read(folder / "manifest.json", "bundle.no_manifest", "run manage.py bundle build"))


def read_profile(folder: Path) -> LoadedProfile:
    """The profile in a bundle's folder; raises DocumentError."""
    return load_profile(_read(folder / "profile.json", "bundle.no_profile", "a bundle without one cannot be started"))


def rebuild(folder: Path, *, recipes: Recipes, write: bool = True) -> list[str]:
    """Build `manifest.json`, and bind `profile.json` to it if there is one.

    Returns the names of the files that changed; with `write` false nothing is written. Raises DocumentError.
    """
    manifest = build_manifest(folder, recipes=recipes)
    built = {"manifest.json": manifest_bytes(manifest)}
    if (folder / "profile.json").exists():
        built["profile.json"] = _bound_profile(folder, load_manifest(built["manifest.json"]))
    kept = {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in built}
    changed = [name for name, data in built.items() if kept[name] != data]
    for name in changed if write else ():
        partial = folder / f".{name}.partial"
        partial.write_bytes(built[name])
        partial.replace(folder / name)
    return changed


def _bound_profile(folder: Path, bundle: LoadedBundle) -> bytes:
    document = load_object((folder / "profile.json").read_bytes())
    suite = as_object(as_object(document.get("suites")).get("environment"))
    suite["task_bundle"] = {
        "name": bundle.manifest.name,
        "revision": bundle.manifest.revision,
        "manifest_sha256": bundle.manifest_sha256,
    }
    document["content_sha256"] = content_sha256(document)
    data = (json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n").encode()
    load_profile(data)
    return data


def _read(path: Path, code: str, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise refuse(code, f"there is no readable {path.name}; {remedy}", detail=str(error)) from error
