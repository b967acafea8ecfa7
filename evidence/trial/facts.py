"""The facts of one trial, before it is judged.

A frozen summary of files and observations. The classifier sees nothing else, so the same facts always get the
same bucket, whoever started the trial and wherever its files come from.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evidence.reading.clocks import Interval
from evidence.reading.proofs import Proof
from evidence.reading.rewards import Reward
from evidence.trial.budgets import BudgetEnd
from evidence.trial.cost import Cost
from evidence.trial.endpoint import EndpointFacts


class Timing(StrEnum):
    """Whether something happened at all and, if so, before or after the verifier was terminal."""

    NEVER = "never"
    BEFORE_GRADE = "before_grade"
    AFTER_GRADE = "after_grade"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A limit that was hit. `phase` is environment, setup, agent, verifier, trial or run; `limit_s` in seconds."""

    phase: str
    limit_s: float | None
    timing: Timing = Timing.BEFORE_GRADE


@dataclass(frozen=True, slots=True)
class OwnFailure:
    """A recorded failure, already mapped to a classification code; `detail` is private."""

    code: str
    detail: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What the agent's container ran into, by the engine's counters and state."""

    available: bool = False
    oom_kills: int = 0
    pids_limit_hits: int = 0
    tmpfs_full: bool = False
    engine_oom_killed: bool = False

    @property
    def out_of_memory(self) -> bool:
        return self.oom_kills > 0 or self.engine_oom_killed


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The agent's own command. `ended` says that its exit was recorded by the attendant."""

    ended: bool = False
    exit_code: int | None = None
    timed_out: bool = False
    step_limit_reached: bool = False

    @property
    def ended_with_error(self) -> bool:
        return self.exit_code is not None and self.exit_code != 0


@dataclass(frozen=True, slots=True)
class VerifierFacts:
    """The separate verifier. `terminal` says that its command ended and its files were fetched or refused."""

    ended: bool = False
    exit_code: int | None = None
    terminal: bool = False
    bad_transfers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What the agent left. `refused` is the code of why nothing of it was graded, or empty; `passed_over` counts, by
    code, what stood among the graded files and was not taken."""

    refused: str = ""
    passed_over: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """One trial. `checks` hold every comparison with its code; `own_failures` are what our own side recorded, in the
    order of their weight; `harness_failure` is what went wrong with Harbor itself; `proofs` are the parts of the proof
    of execution, each with the code of its absence. `budget` is what of the endpoint's budgets and pace ended it,
    `cost` what its requests cost, None for unknown."""

    trial: int
    task: str
    checks: tuple[Proof, ...] = ()
    proofs: tuple[Proof, ...] = ()
    started: bool = True
    cancel: Timing = Timing.NEVER
    interrupted: bool = False
    process_lost: bool = False
    own_failures: tuple[OwnFailure, ...] = ()
    harness_failure: OwnFailure | None = None
    harbor_exception: str | None = None
    deadline: Deadline | None = None
    budget: BudgetEnd | None = None
    endpoint: EndpointFacts = field(default_factory=EndpointFacts)
    cost: Cost | None = None
    agent: AgentFacts = field(default_factory=AgentFacts)
    resources: Resources = field(default_factory=Resources)
    output: OutputFacts = field(default_factory=OutputFacts)
    verifier: VerifierFacts = field(default_factory=VerifierFacts)
    reward: Reward = field(default_factory=Reward)
    notes: tuple[str, ...] = ()
    trial_uuid: str | None = None
    task_checksum: str | None = None
    phases: dict[str, Interval] = field(default_factory=dict)
    total: Interval = field(default_factory=Interval)
    usage: dict[str, Any] = field(default_factory=dict)
