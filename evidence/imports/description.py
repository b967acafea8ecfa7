"""What a job folder amounts to: everything that a reader of it can tell, and nothing that needs a database."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchsite.lib.folder import FileState
from evidence.imports.outcomes import ReportedOutcome

# Told of a trial: what it says, for people.
BADGES = {
    "harbor_counted_otherwise": "Harbor itself counted this trial otherwise: it kept the reward beside the exception",
    "reward_differs": "verifier/reward.json or reward.txt says otherwise than result.json",
    "reward_not_a_number": "a reward is no finite number, and counts as none",
    "reward_unnamed": "a reward has no name that can be kept, and is left out",
    "planted_result": "a result.json lies deeper in the trial's folder; nothing of it is believed",
    "files_refused": "some files are links, special files, too large or too many, and are not taken",
    "trajectory_version": "its trajectory is of an unknown version, and is shown as a raw file only",
    "time_without_zone": "its times were written without a zone",
    "conversation_contradictory": "its steps name different conversations, so none is kept",
    "conversation_malformed": "the id of its conversation is no text, so none is kept",
    "usage_malformed": "a number of its usage is none, and counts as not reported",
    "regraded": "only the grading was done again; no agent ran, and the tokens are the source trial's",
    "other_kwargs": "agents of this candidate ran with different arguments",
    "changed_task": "the task had another content in another trial of the same job",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Agent, model provider and model, each as it stands in the result; empty where there is none."""

    agent_name: str
    model_provider: str
    model_name: str

    @property
    def title(self) -> str:
        model = "/".join(part for part in (self.model_provider, self.model_name) if part)
        return f"{self.agent_name} · {model}" if model else self.agent_name


@dataclass(frozen=True, slots=True)
class Reward:
    """One reward; `main` says that it is the one which decides, `passed` only of that, and only when it counts."""

    name: str
    number: float
    main: bool = False
    passed: bool | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost (USD) from one source: `result`, `model_usage`, `final_metrics`, or empty for none."""

    input_tokens: int | None = None
    cache_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a folder by its raw path below it; `state` is what a walk says, nothing was read."""

    path: str
    state: FileState
    size: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TrialReport:
    """One trial as its own folder tells it. `folder` is the trial's folder below the job, and its name.

    `error` is one sentence with the exception's type in front; empty for a graded trial, where `agent_error` may name
    an exception that voids nothing. Times are None where they have no zone; `times` has all as they were written.
    """

    folder: str
    case: str
    source: str
    checksum: str
    outcome: ReportedOutcome
    error_type: str = ""
    error: str = ""
    agent_error: str = ""
    rewards: tuple[Reward, ...] = ()
    usage: Usage = field(default_factory=Usage)
    repeated_usage: Usage | None = None
    regraded: bool = False
    agent_version: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    times: dict[str, str] = field(default_factory=dict)
    steps: tuple[dict[str, Any], ...] = ()
    verifier_mode: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    conversation_id: str = ""
    badges: tuple[str, ...] = ()
    planted: tuple[str, ...] = ()
    files: tuple[FileEntry, ...] = ()
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """The trials of one candidate on one dataset, by their names. `requested` counts what the job was to run."""

    candidate: Candidate
    source: str
    trials: tuple[TrialReport, ...]
    requested: int
    complete: bool
    agent_version: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def cases(self) -> dict[str, frozenset[str]]:
        """Task name → the checksums that its trials report."""
        found: dict[str, set[str]] = {}
        for trial in self.trials:
            found.setdefault(trial.case, set()).update({trial.checksum} - {""})
        return {name: frozenset(checksums) for name, checksums in found.items()}

    def count(self, outcome: ReportedOutcome) -> int:
        return sum(trial.outcome is outcome for trial in self.trials)


@dataclass(frozen=True, slots=True)
class Note:
    """Something to say about a job: a stable code and a sentence. `where` is a folder or file below the job."""

    code: str
    sentence: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class JobReport:
    """A whole job. `unfinished` says that Harbor did not write its end; times are as they were written."""

    name: str
    job_id: str
    harbor_version: str
    experiments: tuple[ExperimentReport, ...]
    warnings: tuple[Note, ...]
    files: tuple[FileEntry, ...]
    retries: int | None = None
    unfinished: bool = False
    times: dict[str, str] = field(default_factory=dict)

    @property
    def planted(self) -> tuple[str, ...]:
        """Every result.json that lies deeper than a trial's own, by its path below the job."""
        return tuple(
            f"{trial.folder}/{path}" for part in self.experiments for trial in part.trials for path in trial.planted
        )
