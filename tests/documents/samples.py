"""Valid documents to break, and how to break one at a path."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchsite.lib.canonical import content_sha256, load_object
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE

PROFILES_V1 = Path(__file__).parent.parent / "fixtures" / "profiles-v1"
HEX = "a" * 64
IMAGE = f"registry.example/base@sha256:{HEX}"

type Place = tuple[str | int, ...]
type Change = Callable[[dict[str, Any]], None]


def profile_v1(name: str = "smoke") -> dict[str, Any]:
    return load_object((PROFILES_V1 / f"{name}.json").read_bytes())


def profile_v2() -> dict[str, Any]:
    return load_object((ENVIRONMENT_SMOKE / "profile.json").read_bytes())


def manifest() -> dict[str, Any]:
    return load_object((ENVIRONMENT_SMOKE / "manifest.json").read_bytes())


def endpoint() -> dict[str, Any]:
    return {
        "schema": "benchsite.endpoint/v1",
        "name": "local-model",
        "base_url": "http://models.example:8000/v1",
        "model": "small-model",
        "route": "direct",
        "credential": {"kind": "env", "name": "MODEL_KEY"},
        "controls": ["max_tokens"],
    }


def endpoint_v2() -> dict[str, Any]:
    return {
        "schema": "benchsite.endpoint/v2",
        "name": "local-model",
        "base_url": "http://models.example:8000/v1",
        "model": "small-model",
        "served_models": ["small-model-2026-05-01", "org/small-model"],
        "route": "direct",
        "private_addresses": "refused",
        "headers": {"OpenAI-Organization": "org-7", "X-Title": "benchsite"},
        "credential": {"kind": "env", "name": "MODEL_KEY"},
        "controls": ["max_tokens"],
    }


def put(*place: str | int, value: Any) -> Change:
    """Set the value at a place, adding the key when it is missing."""

    def change(document: dict[str, Any]) -> None:
        _at(document, place[:-1])[place[-1]] = value

    return change


def drop(*place: str | int) -> Change:
    """Remove the key or element at a place."""

    def change(document: dict[str, Any]) -> None:
        del _at(document, place[:-1])[place[-1]]

    return change


def both(*changes: Change) -> Change:
    def change(document: dict[str, Any]) -> None:
        for one in changes:
            one(document)

    return change


def changed(document: dict[str, Any], change: Change, *, rehash: bool = False) -> dict[str, Any]:
    """A changed copy; with `rehash` its `content_sha256` is that of the changed content again."""
    result = copy.deepcopy(document)
    change(result)
    if rehash and "content_sha256" in result:
        result["content_sha256"] = content_sha256(result)
    return result


def copy_bundle(target: Path) -> Path:
    """A copy of the packaged bundle that a test may change."""
    shutil.copytree(ENVIRONMENT_SMOKE, target / "bundle")
    return target / "bundle"


def _at(document: Any, place: Place) -> Any:
    for part in place:
        document = document[part]
    return document
