"""The identity of the engine on which everything was created: another one knows none of it, and would look clean.

The engine's own id and its root folder stand in `engine.json` beside the journal, written before anything is created.
"""

import json
from pathlib import Path
from typing import Any

import docker

from runs.containers import Deadline, EngineError, connect, engine_call
from runs.engine.host.folder import write_document

NAME = "engine.json"
SCHEMA = "benchsite.engine/v1"
CHANGED = "engine_changed"


def remember_engine(directory: Path, api: Any) -> None:
    """Record which engine `api` speaks to. Raises EngineError, OSError."""
    write_document(directory / NAME, {"schema": SCHEMA, **_identity(api)})


def forget_engine(directory: Path) -> None:
    """Nothing is left on any engine, or nobody knows on which."""
    (directory / NAME).unlink(missing_ok=True)


def connect_same(directory: Path, timeout_s: int, deadline: Deadline | None = None) -> docker.APIClient:
    """A client of the engine that `directory` remembers. Raises EngineError, `engine_changed` for another one."""
    api = connect(timeout_s, deadline)
    require_same(directory, api, deadline)
    return api


def require_same(directory: Path, api: Any, deadline: Deadline | None = None) -> None:
    """Raises EngineError `engine_changed` unless `api` speaks to the remembered engine, if one is remembered."""
    try:
        known = json.loads((directory / NAME).read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _changed(f"{NAME} cannot be read: {type(error).__name__}") from error
    if known != (seen := {"schema": SCHEMA, **_identity(api, deadline)}):
        raise _changed(f"created on {known}, found {seen}")


def _identity(api: Any, deadline: Deadline | None = None) -> dict[str, Any]:
    with engine_call("info", deadline):
        info = api.info()
    return {"id": info.get("ID"), "root": info.get("DockerRootDir")}


def _changed(detail: str) -> EngineError:
    return EngineError(
        CHANGED,
        "This is another container engine than the one that was used. Point DOCKER_HOST at that one and try again.",
        detail,
    )
