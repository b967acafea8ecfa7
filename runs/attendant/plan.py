"""The plan of one trial, as the engine wrote it into `environment.json`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchsite.lib.strict_json import load_object
from runs.wire.failures import StartRefused

SCHEMA = "benchsite.environment-plan/v1"
MAX_PLAN_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class RolePlan:
    """Limits and place of one container. Sizes in bytes, `tmpfs` maps a path to its size.

    `command` is the image's first process; empty means the holder at its usual place.
    """

    image_id: str
    cpus: float
    memory_bytes: int
    pids: int
    nofile: int
    tmpfs: dict[str, int]
    network_id: str | None = None
    network_name: str | None = None
    gateway_host: str | None = None
    gateway_ip: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    exec_output_bytes: int
    transfer_bytes: int
    transfer_files: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`directory` is the trial's own folder, where `observed.jsonl` and `kept/` go."""

    directory: Path
    run_id: str
    trial: int
    task: str
    journal_directory: Path
    placeholder: str
    bounds: Bounds
    roles: dict[str, RolePlan]


def load_plan(path: Path) -> Plan:
    """Raises StartRefused `plan.unreadable` or `plan.malformed`; unknown fields are refused."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise StartRefused("plan.unreadable", "The plan of this trial cannot be read.", str(error)) from error
    try:
        return _plan(path.parent, data)
    except (ValueError, TypeError, KeyError) as error:
        raise StartRefused(
            "plan.malformed",
            "The plan of this trial does not have its form.",
            f"{type(error).__name__}: {error}",
        ) from error


def _plan(directory: Path, data: bytes) -> Plan:
    document = load_object(data, size=MAX_PLAN_BYTES)
    if document.pop("schema") != SCHEMA:
        raise ValueError("schema")
    roles = document.pop("roles")
    return Plan(
        directory=directory,
        journal_directory=Path(document.pop("journal_directory")),
        bounds=Bounds(**document.pop("bounds")),
        roles={name: _role(value) for name, value in roles.items()},
        **document,
    )


def _role(value: dict[str, Any]) -> RolePlan:
    plan = RolePlan(**{**value, "command": tuple(value.get("command", ()))})
    if not plan.image_id.startswith("sha256:"):
        raise ValueError("image_id is not an image id")
    return plan
