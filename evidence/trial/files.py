"""The files of one trial, read once, bounded and strictly."""

from dataclasses import dataclass
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.harbor.job import HarborFacts, read_harbor
from evidence.reading import observed as seen
from evidence.reading.clocks import Interval
from evidence.reading.observed import VERIFIER, Observed, Transfer
from evidence.reading.own_records import supervision_problem
from evidence.reading.proofs import Proof
from runs.documents.ledger import LedgerReport
from runs.documents.run_spec import RunSpec, SpecTask
from runs.ownership.document import JournalDocument


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the trials of one run share."""

    folder: Folder
    spec: RunSpec
    document: dict[str, Any]
    manifest: dict[str, Any]
    journal: JournalDocument | None
    ledger: LedgerReport
    checks: tuple[Proof, ...]
    ledger_check: Proof

    @property
    def interrupted(self) -> bool:
        return self.document.get("interrupted") is True

    def limit(self, name: str) -> float:
        """One of the spec's limits in seconds, such as `agent_s`."""
        return float(getattr(self.spec.limits, name))


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """The parsed files of one trial; `supervision` is empty when missing, `broken` names records of our own
    that cannot be read."""

    base: str
    task: SpecTask
    supervision: dict[str, Any]
    observed: Observed
    harbor: HarborFacts
    broken: tuple[str, ...]
    present: bool

    @property
    def graded_at(self) -> str | None:
        """When the verifier was terminal: its command had ended and its files were fetched or refused."""
        command = self.observed.exec_of(VERIFIER, "verifier")
        fetched = verifier_logs(self.observed)
        return fetched.at if command is not None and command.ended and fetched is not None else None

    @property
    def supervised(self) -> Interval:
        return Interval.of(self.supervision)

    @property
    def complete(self) -> bool:
        return self.graded_at is not None and self.harbor.result.state == "ok"


def read_trial_files(context: RunContext, base: str, task: SpecTask) -> TrialFiles:
    supervision, supervision_problem = _supervision(context.folder, base)
    observed, observed_problem = _observed(context.folder, base)
    return TrialFiles(
        base=base,
        task=task,
        supervision=supervision,
        observed=observed,
        harbor=read_harbor(context.folder, f"{base}/job", context.spec, task),
        broken=tuple(problem for problem in (supervision_problem, observed_problem) if problem),
        present=bool(supervision or observed.sequence or context.folder.names(f"{base}/job", limit=1)),
    )


def _supervision(folder: Folder, base: str) -> tuple[dict[str, Any], str]:
    read = folder.read(f"{base}/supervision.json", limit=256 * 1024)
    if read.state is FileState.MISSING:
        return {}, ""
    try:
        document = load_object(read.data) if read.state is FileState.OK else {}
    except JsonProblem as problem:
        return {}, f"supervision: {problem.code}"
    found = read.state.value if read.state is not FileState.OK else supervision_problem(document)
    return ({}, f"supervision: {found}") if found else (document, "")


def _observed(folder: Folder, base: str) -> tuple[Observed, str]:
    read = folder.read(f"{base}/observed.jsonl", limit=seen.MAX_BYTES)
    if read.state in (FileState.MISSING, FileState.EMPTY):
        return Observed(), ""
    if read.state is not FileState.OK:
        return Observed(), f"observed: {read.state.value}"
    return seen.parse(read.data), ""


def ended_by_itself(files: TrialFiles) -> bool:
    """Whether nobody stopped the trial's process."""
    stopped = ("deadline", "signal", "cancel_requested", "interrupted")
    return files.supervision.get("exit_code") is not None and not any(files.supervision.get(key) for key in stopped)


def verifier_logs(observed: Observed) -> Transfer | None:
    found = [
        transfer
        for transfer in observed.transfers
        if transfer.role == VERIFIER and transfer.purpose == "verifier_logs" and transfer.direction == "download"
    ]
    return found[-1] if found else None


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None
