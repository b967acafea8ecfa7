"""The plan of one trial, as the engine wrote it into `environment.json`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchsite.lib.strict_json import load_object
from runs.ownership.storage import read_bounded
from runs.wire.failures import StartRefused

SCHEMA = "benchsite.environment-plan/v2"
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
class Conduct:
    """What may be done with the container of one role.

    `session` ends Harbor's session ids of it. In an `exclusive` one everything else is killed before anything leaves
    it. `uploads` maps what may be sent to where it goes, None for its own place; agent logs that are not among them
    are not sent back. `downloads` may be fetched, and with `artifacts` what the task declares.
    """

    session: str
    exclusive: bool
    uploads: dict[str, str | None]
    downloads: tuple[str, ...]
    artifacts: bool


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The longest that the phases of a trial may take, in seconds. The sandbox may set no other."""

    setup: float
    agent: float
    verifier: float


@dataclass(frozen=True, slots=True)
class Plan:
    """`directory` is the trial's own folder, where `observed.jsonl` and `kept/` go. `conduct` is by role too."""

    directory: Path
    run_id: str
    trial: int
    task: str
    journal_directory: Path
    placeholder: str
    bounds: Bounds
    roles: dict[str, RolePlan]
    conduct: dict[str, Conduct]
    deadlines: Deadlines

    def role_of(self, session: str) -> str | None:
        """The role of a session of Harbor, None for one that the plan does not have."""
        return next((role for role, conduct in self.conduct.items() if session.endswith(conduct.session)), None)


def load_plan(path: Path) -> Plan:
    """Raises StartRefused `plan.unreadable` or `plan.malformed`; unknown fields are refused."""
    try:
        data = read_bounded(path, MAX_PLAN_BYTES)
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
    roles, conduct = document.pop("roles"), document.pop("conduct")
    if set(roles) != set(conduct):
        raise ValueError("conduct")
    return Plan(
        directory=directory,
        journal_directory=Path(document.pop("journal_directory")),
        bounds=Bounds(**document.pop("bounds")),
        deadlines=Deadlines(**document.pop("deadlines")),
        roles={name: _role(value) for name, value in roles.items()},
        conduct={name: Conduct(**{**value, "downloads": tuple(value["downloads"])}) for name, value in conduct.items()},
        **document,
    )


def _role(value: dict[str, Any]) -> RolePlan:
    plan = RolePlan(**{**value, "command": tuple(value.get("command", ()))})
    if not plan.image_id.startswith("sha256:"):
        raise ValueError("image_id is not an image id")
    return plan
