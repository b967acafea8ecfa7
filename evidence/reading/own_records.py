"""What our own side wrote of a run and of each trial's process, `run.json` and `supervision.json`: closed types.

What is mistyped says nothing at all: such a record is refused as a whole, and never read as if the field were absent.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from evidence.reading.clocks import is_recorded

Number = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=2**53)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
ContainerId = Sha256


class OwnRecord(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing but its fields."""


class RunFailure(OwnRecord, frozen=True, kw_only=True, rename={"klass": "class"}):
    stage: str
    klass: Literal["integrity", "worker_runtime", "harness", "authentication", "routing", "serving_runtime"]
    code: str
    detail: str


class PreflightCheck(OwnRecord, frozen=True, kw_only=True):
    """A condition of the start; one that does not hold and whose level is `block` refuses it."""

    name: str
    passed: bool
    code: str
    detail: str
    remedy: str
    level: Literal["block", "accept", "note"]


class ProbeCheck(OwnRecord, frozen=True, kw_only=True):
    name: str
    passed: bool
    code: str | None
    detail: str


class Probe(OwnRecord, frozen=True, kw_only=True):
    passed: bool
    checks: list[ProbeCheck]
    unproved: list[str]


class Readiness(OwnRecord, frozen=True, kw_only=True):
    checks: list[PreflightCheck]
    seconds: float | None


class GatewayDied(OwnRecord, frozen=True, kw_only=True):
    """`at` is the engine's own time, with nanoseconds."""

    at: Annotated[str, Meta(pattern=r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")] | None
    exit_code: Number | None
    oom_killed: bool


class RunGateway(OwnRecord, frozen=True, kw_only=True):
    container_id: ContainerId
    closed: bool
    died: GatewayDied | UnsetType | None = UNSET


class BudgetLeft(OwnRecord, frozen=True, kw_only=True):
    """What other runs had left of a budget when the run's gateway started: tokens, and money as a decimal text."""

    tokens: Annotated[int, Meta(ge=0, le=2**53)] | None
    money: Annotated[str, Meta(pattern=r"^[0-9]{1,10}\.[0-9]{2,12}$")] | None


class RunBudgets(OwnRecord, frozen=True, kw_only=True):
    """`reached` is the budget that kept the next trial from starting, as the gateway calls it."""

    left: dict[Literal["day", "total"], BudgetLeft]
    reached: Annotated[str, Meta(pattern="^budget[.](trial|run|day|total)_(tokens|money)$")] | None


class WorkerRecord(OwnRecord, frozen=True, kw_only=True):
    """With what it was carried out, for the provenance; `report` is the worker's own and has a schema there."""

    version: str
    report: dict[str, Any]
    image_recipes: dict[str, str]
    harness: dict[str, str]


class RunRecord(OwnRecord, frozen=True, kw_only=True):
    """`run.json`. What may be missing was not written before the version that wrote it first."""

    schema: Literal["benchsite.run-facts/v1"]
    run_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    spec_sha256: Sha256
    started_at: str
    ended_at: str | None
    cancel_requested_at: str | None
    interrupted: bool
    deadline: Literal["run"] | None
    failure: RunFailure | None
    probe: Probe | None
    gateway: RunGateway | None
    preflight: list[PreflightCheck] | UnsetType | None = UNSET
    worker: WorkerRecord | UnsetType | None = UNSET
    readiness: Readiness | UnsetType | None = UNSET
    unscrubbed: list[str] | UnsetType = UNSET
    ledger_sha256: Sha256 | UnsetType | None = UNSET
    budgets: RunBudgets | UnsetType | None = UNSET

    @property
    def times(self) -> tuple[str | None, ...]:
        return self.started_at, self.ended_at, self.cancel_requested_at


class SupervisedProcess(OwnRecord, frozen=True, kw_only=True):
    pid: Number
    start_ticks: Number
    pgid: Number
    sid: Number
    boot_id: str


class Supervision(OwnRecord, frozen=True, kw_only=True):
    """`supervision.json`. The process ended with an exit code, or by a signal, or is not known to have ended."""

    schema: Literal["benchsite.supervision/v1"]
    trial: Number
    started_at: str
    ended_at: str
    mono_started: Seconds
    mono_ended: Seconds
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None
    signal: Annotated[int, Meta(ge=1, le=64)] | None
    deadline: Literal["trial", "run"] | None
    cancel_requested: bool
    interrupted: bool
    process: SupervisedProcess

    @property
    def times(self) -> tuple[str | None, ...]:
        return self.started_at, self.ended_at


def run_record_problem(document: dict[str, Any]) -> str:
    """Why this document is no run's record, with its place; empty when it is one."""
    return _problem(document, RunRecord)


def supervision_problem(document: dict[str, Any]) -> str:
    """The same of a supervision record."""
    found = _problem(document, Supervision)
    both = document.get("exit_code") is not None and document.get("signal") is not None
    return found or ("an exit code and a signal" if both else "")


def _problem(document: dict[str, Any], kind: type[RunRecord] | type[Supervision]) -> str:
    try:
        record = msgspec.convert(document, kind, strict=True)
    except (msgspec.ValidationError, OverflowError) as error:
        return str(error)[:200]
    return "" if all(time is None or is_recorded(time) for time in record.times) else "a time that is none"
