"""The harness lock as a document."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchsite.lib.canonical import JsonObject, canonical_sha256
from runs.engine.assets.errors import AssetError
from runs.engine.assets.interpreters import Interpreter
from runs.engine.assets.wheels import Wheel
from runs.ownership.storage import replace_whole

HARNESS_LOCK_SCHEMA = "benchsite.harness-lock/v1"
HARBOR = "harbor"
AGENT = "mini-swe-agent"
# The source that was read. That the distribution was built from it is not proved, and not claimed.
REVIEWED_SOURCE_COMMIT = "5c364a538e0af19eb58a53fdb895d7c0f974cef5"


@dataclass(frozen=True, slots=True)
class HarnessLock:
    """`document` is the canonical lock with its own `lock_sha256`; the other fields are read from it."""

    key: str
    lock_sha256: str
    tree_sha256: str
    adapter_sha256: str
    harbor: str
    agent: str
    agent_version: str
    python: str
    interpreter: Interpreter
    document: JsonObject


def make_lock(
    *, key: str, interpreter: Interpreter, wheels: list[Wheel], requirements_sha256: str, agent_version: str,
    adapter: dict[str, str], adapter_sha256: str, tree_sha256: str, files: int,
) -> HarnessLock:  # fmt: skip
    """The lock of a finished environment. Its hash is over everything but itself."""
    harbor = next(wheel for wheel in wheels if wheel.name == HARBOR)
    document: dict[str, Any] = {
        "schema": HARNESS_LOCK_SCHEMA,
        "key": key,
        "harbor": harbor.version,
        "agent": AGENT,
        "agent_version": agent_version,
        "python": interpreter.version,
        "interpreter": asdict(interpreter),
        "distribution": {
            "name": HARBOR,
            "version": harbor.version,
            "sha256": harbor.sha256,
            "reviewed_source_commit": REVIEWED_SOURCE_COMMIT,
            "equality_claimed": False,
        },
        "dependencies": [
            {"name": wheel.name, "version": wheel.version, "sha256": wheel.sha256}
            for wheel in wheels
            if wheel is not harbor
        ],
        "requirements_sha256": requirements_sha256,
        "adapter": dict(adapter),
        "adapter_sha256": adapter_sha256,
        "tree_sha256": tree_sha256,
        "files": files,
    }
    document["lock_sha256"] = canonical_sha256(document)
    return _from_document(document)


def write_lock(path: Path, lock: HarnessLock) -> None:
    """Replace the lock in one step."""
    replace_whole(path, json.dumps(lock.document, indent=1, sort_keys=True).encode())


def read_lock(path: Path) -> HarnessLock:
    """Raises AssetError `assets.not_prepared`, `harness.lock_changed` (edited by hand), `harness.lock_schema`."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise AssetError(
            "assets.not_prepared", "The harness environment is not prepared. Run: manage.py prepare", str(path)
        ) from error
    except (ValueError, RecursionError) as error:
        raise _changed(path) from error
    if not isinstance(document, dict):
        raise _changed(path)
    stated = document.get("lock_sha256")
    if stated != canonical_sha256({name: value for name, value in document.items() if name != "lock_sha256"}):
        raise _changed(path)
    if document.get("schema") != HARNESS_LOCK_SCHEMA:
        raise AssetError(
            "harness.lock_schema", "The harness lock is of another version. Run: manage.py prepare", str(path)
        )
    return _from_document(document)


def _from_document(document: dict[str, Any]) -> HarnessLock:
    texts = ("key", "lock_sha256", "tree_sha256", "adapter_sha256", "harbor", "agent", "agent_version", "python")
    return HarnessLock(
        **{name: document[name] for name in texts},
        interpreter=Interpreter(**document["interpreter"]),
        document=document,
    )


def _changed(path: Path) -> AssetError:
    return AssetError(
        "harness.lock_changed",
        "The harness lock was changed by hand. Delete harness.json and the folder harness in the assets "
        "folder, and run: manage.py prepare",
        str(path),
    )
