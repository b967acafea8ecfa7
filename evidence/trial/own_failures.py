"""Failures of our own side: engine, image, disk, set-up, transfers, the run, and Harbor itself."""

from evidence.harbor.reported import unfinished
from evidence.reading.clocks import is_before
from evidence.reading.observed import AGENT, Observed, Transfer
from evidence.reading.proofs import at
from evidence.reading.rewards import Reward
from evidence.trial.agent_output import is_agents_refusal
from evidence.trial.deadlines import moment_after
from evidence.trial.facts import AgentFacts, Deadline, OwnFailure, Timing, VerifierFacts
from evidence.trial.files import RunContext, TrialFiles, ended_by_itself
from runs.checks.readiness import ENDPOINT_CLASSES


def read_own_failures(context: RunContext, files: TrialFiles, deadline: Deadline | None) -> tuple[OwnFailure, ...]:
    """Failures of engine, image, disk, set-up and transfers, and of the run itself while this trial was open."""
    stopped_at = _stopping_moment(context, files, deadline)
    found = [
        OwnFailure(_failure_code(failure.where, failure.code), failure.code)
        for failure in files.observed.failures
        if not _is_consequence(failure.at, stopped_at)
    ]
    found += _gateway_failures(context, files)
    found += _setup_failures(files.observed)
    found += [
        OwnFailure(f"worker_runtime.transfer_{word}", f"{transfer.purpose}: {transfer.code}")
        for transfer in files.observed.transfers
        if (word := _transfer_failure(transfer)) and not _is_consequence(transfer.at, stopped_at)
    ]
    if not files.complete:
        found += _run_failures(context)
    return tuple(found)


def _stopping_moment(context: RunContext, files: TrialFiles, deadline: Deadline | None) -> str | None:
    """When our own supervisor stopped the trial: what failed after it is a consequence, not a cause."""
    if deadline is None or deadline.timing is not Timing.BEFORE_GRADE or deadline.phase not in ("trial", "run"):
        return None
    start = files.supervision.get("started_at") if deadline.phase == "trial" else context.document.get("started_at")
    return moment_after(start, deadline.limit_s)


def _is_consequence(happened_at: str | None, stopped_at: str | None) -> bool:
    return stopped_at is not None and is_before(stopped_at, happened_at) is True


def _gateway_failures(context: RunContext, files: TrialFiles) -> list[OwnFailure]:
    """The gateway ended before anybody asked it to: a trial that was over by then had all of it, any other had not."""
    died = at(context.document, "gateway", "died")
    if died is None or not files.present or is_before(files.supervised.ended_at, at(died, "at")) is True:
        return []
    how = "out of memory" if at(died, "oom_killed") is True else f"exit code {at(died, 'exit_code')}"
    return [OwnFailure("worker_runtime.gateway", f"it ended during the run: {how}"[:100])]


_DISK_FULL = ("disk_full", "no_space_left")
_WHERE = {
    "start": "worker_runtime.start_failed",
    "exec": "worker_runtime.exec_failed",
    "transfer": "worker_runtime.transfer_failed",
    "stop": "worker_runtime.stop_failed",
    "sandbox": "harness.sandbox_violation",
}


def _failure_code(where: str, code: str) -> str:
    if code in _DISK_FULL:
        return "worker_runtime.disk_full"
    return _WHERE.get(where, "worker_runtime.provider_failure")


def _setup_failures(observed: Observed) -> list[OwnFailure]:
    """A set-up command's error counts only when the agent was never started: Harbor also probes by commands."""
    command = observed.exec_of(AGENT, "setup")
    if observed.exec_of(AGENT, "agent") is not None or command is None or command.exit_code in (0, None):
        return []
    return [OwnFailure("worker_runtime.setup_failed", exit_code=command.exit_code)]


def _transfer_failure(transfer: Transfer) -> str | None:
    """`failed` or `refused`. What the agent's own log folder held never decides: the agent could provoke it. What only
    its output can have caused is its own failure."""
    if transfer.role != AGENT or transfer.outcome in ("ok", "source_absent"):
        return None
    if transfer.outcome == "partial" and transfer.direction == "download":
        return None
    if transfer.outcome == "refused":
        return None if transfer.purpose == "agent_logs" or is_agents_refusal(transfer) else "refused"
    return "failed"


_STAGES = {
    "preflight": "worker_runtime.preflight",
    "gateway": "worker_runtime.gateway",
    "probe": "worker_runtime.probe",
}


def _run_failures(context: RunContext) -> list[OwnFailure]:
    failure = context.document.get("failure")
    if failure is None:
        return []
    if at(failure, "class") == "integrity":
        return [OwnFailure("integrity.run_refused", str(at(failure, "code"))[:100])]
    if at(failure, "class") in ENDPOINT_CLASSES:
        return [OwnFailure(f"{at(failure, 'class')}.not_ready", str(at(failure, "code"))[:100])]
    code = _STAGES.get(str(at(failure, "stage")), "harness.run_failure")
    return [OwnFailure(code, str(at(failure, "code"))[:100])]


def harness_failure(
    files: TrialFiles, deadline: Deadline | None, agent: AgentFacts, verifier: VerifierFacts, reward: Reward
) -> OwnFailure | None:
    """What went wrong with Harbor itself, unless our own limit ended it."""
    if not files.present:
        return None
    limit_hit = deadline is not None and deadline.timing is Timing.BEFORE_GRADE
    state = files.harbor.result.state
    if files.harbor.unsupported:
        return OwnFailure("harness.result_unsupported")
    if files.harbor.not_taken_over:
        return OwnFailure("harness.config_differs", ", ".join(files.harbor.not_taken_over)[:200])
    if state != "ok":
        code = "no_result" if state == "missing" else "result_unreadable"
        return None if limit_hit else OwnFailure(f"harness.{code}", files.harbor.result.reason)
    if files.harbor.job_result.state != "ok" and ended_by_itself(files):
        return OwnFailure("harness.result_unreadable", f"the job's: {files.harbor.job_result.state}")
    if ended_by_itself(files) and unfinished(files.harbor.job_result.content):
        return OwnFailure("harness.result_unreadable", "the job's: not finished")
    if files.harbor.exception_type is None or limit_hit:
        return None
    ungraded = verifier.bad_transfers or (verifier.terminal and reward.state.value_or_none is None)
    if agent.ended_with_error or ungraded:
        return None
    return OwnFailure("harness.exception", files.harbor.exception_type)
