"""The real parts that these tests drive: the engine, the prepared images, the isolated Harbor environment.

`BENCHSITE_TEST_PARTS` may name a JSON file {"agent", "verifier", "python"} of other parts than the prepared.
"""

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runs.attendant.container import Container, ContainerIdentity
from runs.attendant.observed import ObservedFile
from runs.attendant.plan import Bounds, Conduct, Deadlines, Plan, RolePlan
from runs.attendant.session import Session
from runs.containers import (
    ContainerRequest,
    OwnedNetwork,
    address_in,
    connect,
    create_owned,
    create_owned_network,
    reconcile,
    start_owned,
)
from runs.engine.assets import load_assets
from runs.engine.trials.harbor_config import CONDUCT
from runs.ownership import Journal, Role, process_identity

MIB = 1024 * 1024
HOLDER = ("/usr/local/lib/benchsite/holder",)
TRIAL_UUID = "00000000-0000-4000-8000-000000000001"
ENDPOINT = Path(__file__).parent / "endpoint_program.py"
AGENT_TMPFS = {"/app": 16 * MIB, "/logs": 16 * MIB, "/root": 16 * MIB, "/tmp": 64 * MIB}
VERIFIER_TMPFS = {"/app": 16 * MIB, "/logs": 16 * MIB, "/root": 8 * MIB, "/tests": 16 * MIB, "/tmp": 16 * MIB}
BOUNDS = Bounds(exec_output_bytes=64 * 1024, transfer_bytes=4 * MIB, transfer_files=100)


@dataclass(frozen=True)
class Parts:
    """Image ids and the interpreter of the Harbor environment, which has `runs.harness` installed."""

    agent: str
    verifier: str
    python: Path


def find_parts() -> Parts:
    """The prepared parts; a missing one is a failure, since the gate was asked for."""
    if named := os.environ.get("BENCHSITE_TEST_PARTS"):
        found = json.loads(Path(named).read_text())
        return Parts(found["agent"], found["verifier"], Path(found["python"]))
    assets = load_assets(Path(os.environ["BENCHSITE_ASSETS"]))
    images = {image.role: image.id for image in assets.images.images}
    return Parts(images["agent"], images["verifier"], assets.harness.python)


@dataclass
class Bench:
    """An owned run directory with everything that is made in it removed again at the end."""

    directory: Path
    parts: Parts
    journal: Journal = field(init=False)
    api: Any = field(init=False)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.journal = Journal.create(self.directory, run_id="0" * 32)
        identity = process_identity(os.getpid())
        assert identity is not None
        self.journal.record_process(identity, trial=1)
        self.api = connect(30)
        (self.directory / "trials" / "1").mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()
        report = reconcile(self.api, self.journal)
        self.api.close()
        assert report.clean, report

    @property
    def trial(self) -> Path:
        return self.directory / "trials" / "1"

    def session(
        self,
        role: str = "agent",
        artifacts: tuple[str, ...] = (),
        bounds: Bounds = BOUNDS,
        exclusive: bool = True,
        **limits: Any,
    ) -> "OpenSession":
        return OpenSession(self, role, artifacts, bounds, limits, exclusive)

    def running_in(self, container: str) -> list[str]:
        """The command lines of a container's processes."""
        return [row[-1] for row in self.api.top(container)["Processes"]]

    def network(self) -> OwnedNetwork:
        return create_owned_network(self.api, self.journal, internal=True)

    def endpoint(self, network: OwnedNetwork, token: str, commands: list[str]) -> tuple[str, str]:
        """Start the scripted endpoint; returns its container's id and its address in the network."""
        request = ContainerRequest(
            role=Role.GATEWAY,
            image_id=self.parts.verifier,
            command=("python3", "-I", "-c", ENDPOINT.read_text(), token, json.dumps(commands)),
            cpus=1.0,
            memory_bytes=256 * MIB,
            pids=64,
            nofile=256,
            network=network.id,
        )
        owned = create_owned(self.api, self.journal, {}, request)
        start_owned(self.api, self.journal, owned)
        return owned.id, address_in(self.api, owned.id, network.id)


class OpenSession:
    """A session on a real container of its own; `seen` gives what was observed."""

    def __init__(
        self,
        bench: Bench,
        role: str,
        artifacts: tuple[str, ...],
        bounds: Bounds,
        limits: dict[str, Any],
        exclusive: bool = True,
    ) -> None:
        self.bench = bench
        roles = {"agent": role_plan(bench.parts.agent, AGENT_TMPFS, **limits)}
        roles["verifier"] = role_plan(bench.parts.verifier, VERIFIER_TMPFS, **limits)
        self.plan = Plan(
            directory=bench.trial,
            run_id="0" * 32,
            trial=1,
            task="task",
            journal_directory=bench.directory,
            placeholder="placeholder",
            bounds=bounds,
            roles=roles,
            conduct=conduct(exclusive=exclusive),
            deadlines=Deadlines(setup=60, agent=100, verifier=30),
        )
        self.observed_path = bench.trial / "observed.jsonl"
        self.observed = ObservedFile(self.observed_path)
        bench.stack.callback(self.observed.close)
        identity = ContainerIdentity(
            role, 1, f"task__x{'__env' if role == 'agent' else '__verifier__trial'}", TRIAL_UUID
        )
        journal = Journal(bench.directory, process=os.getpid())
        self.container = Container(journal, identity, roles[role], self.observed)
        self.session = Session(self.container, identity, self.plan, self.observed, artifacts=artifacts)

    def seen(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.observed_path.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]


def conduct(*, exclusive: bool = True) -> dict[str, Conduct]:
    """That of reviewed tasks, or one whose agent's processes live on."""
    found = {role: Conduct(**{**each, "downloads": tuple(each["downloads"])}) for role, each in CONDUCT.items()}
    return {**found, "agent": replace(found["agent"], exclusive=exclusive)}


def role_plan(image_id: str, tmpfs: dict[str, int], **limits: Any) -> RolePlan:
    settings: dict[str, Any] = {"cpus": 1.0, "memory_bytes": 512 * MIB, "pids": 128, "nofile": 256, **limits}
    return RolePlan(image_id=image_id, tmpfs=tmpfs, command=HOLDER, **settings)
