"""Reading one trial: puts the attendant's record, Harbor's files and the ledger into TrialFacts."""

from evidence.harbor.reported import contradictions
from evidence.reading.clocks import is_before
from evidence.reading.observed import AGENT, VERIFIER, Observed
from evidence.reading.proofs import Proof
from evidence.reading.rewards import MAX_REWARD_BYTES, Reward, read_reward
from evidence.trial.agent_output import output_facts
from evidence.trial.binding import counted, trial_binding_checks
from evidence.trial.budgets import budget_end
from evidence.trial.checks import own_checks, proof_checks
from evidence.trial.cost import cost_of
from evidence.trial.deadlines import read_deadline, stopped_at_limit
from evidence.trial.endpoint import EndpointFacts, endpoint_facts
from evidence.trial.facts import AgentFacts, Deadline, Resources, Timing, TrialFacts, VerifierFacts
from evidence.trial.files import RunContext, TrialFiles, ended_by_itself, read_trial_files, text, verifier_logs
from evidence.trial.own_failures import harness_failure, read_own_failures
from evidence.trial.run_checks import prepared_proofs
from runs.documents.run_spec import SpecTask

MAX_TRAJECTORY_BYTES = 8 * 1024 * 1024
_COMMAND_TIMED_OUT = b'"exception_type": "TimeoutExpired"'


def read_trial(context: RunContext, task: SpecTask) -> TrialFacts:
    """The facts of the trial of one task of the spec."""
    number = task.ordinal
    files = read_trial_files(context, f"trials/{number}", task)
    asked = context.ledger.trial(number)
    endpoint = endpoint_facts(counted(asked, files.observed))
    deadline = read_deadline(context, files)
    reward = _reward(context, files)
    agent = _agent(context, files.observed, endpoint)
    verifier = _verifier(files.observed)
    return TrialFacts(
        trial=number,
        task=task.name,
        checks=(*context.checks, *_checks(context, files, number)),
        proofs=(
            *prepared_proofs(context.document, context.spec),
            *proof_checks(context, files, number),
            _reported_proof(context, files, reward),
        ),
        started=files.present,
        cancel=_cancel(context, files),
        interrupted=_interrupted(context, files),
        process_lost=_process_lost(files, deadline),
        own_failures=read_own_failures(context, files, deadline),
        harness_failure=harness_failure(files, deadline, agent, verifier, reward),
        harbor_exception=files.harbor.exception_type,
        deadline=deadline,
        budget=budget_end(context.spec, context.document, asked, started=files.present),
        endpoint=endpoint,
        cost=cost_of(asked.requests, context.spec.endpoint.prices),
        agent=agent,
        resources=_resources(files.observed),
        output=output_facts(files.observed),
        verifier=verifier,
        reward=reward,
        notes=_notes(context, files),
        trial_uuid=files.harbor.trial_uuid,
        task_checksum=text(files.harbor.result.content.get("task_checksum")),
        phases=files.harbor.phases,
        total=files.supervised,
        usage=files.harbor.usage,
    )


def _checks(context: RunContext, files: TrialFiles, number: int) -> list[Proof]:
    if not files.present:
        return _missing_checks(context, number)
    unsupervised = not files.supervision and not context.interrupted and context.document.get("ended_at") is not None
    return [
        context.ledger_check,
        Proof("records.readable", "integrity.record_unreadable", not files.broken, "; ".join(files.broken)),
        Proof("supervision.present", "integrity.record_unreadable", not unsupervised, "no supervision record"),
        Proof(
            "observed.whole",
            "integrity.observed_broken",
            not files.observed.problems and not (files.observed.cut_line and ended_by_itself(files)),
            "; ".join(files.observed.problems[:5]),
        ),
        Proof(
            "supervision.times",
            "integrity.times_inverted",
            not files.supervised.inverted and not _monotonic_inverted(files),
            "it ended before it began",
        ),
        Proof(
            "supervision.trial",
            "integrity.trial_identity",
            not files.supervision or files.supervision.get("trial") == number,
            "the supervision record is another trial's",
        ),
        *trial_binding_checks(context.ledger, context.spec, files.observed, number),
        *own_checks(context, files, number),
        *files.harbor.checks,
    ]


def _missing_checks(context: RunContext, number: int) -> list[Proof]:
    """A trial of which nothing was recorded was not started: it has no container then, and asked the model nothing.

    Of a run that was interrupted, or that failed, the records may not have come to be written; but the trial's plan,
    by which its containers are made, lies in its folder before there is any.
    """
    cut_short = context.interrupted or context.document.get("failure") is not None
    if cut_short and context.folder.names(f"trials/{number}", limit=1):
        return []
    resources = context.journal.resources if context.journal is not None else ()
    made = sum(each.intent.trial == number and each.resource_id is not None for each in resources)
    asked = len(context.ledger.trial(number).requests)
    detail = f"{made} containers, {asked} requests"
    return [Proof("trial.records", "integrity.trial_missing", not made and not asked, detail)]


def _monotonic_inverted(files: TrialFiles) -> bool:
    start, end = files.supervision.get("mono_started"), files.supervision.get("mono_ended")
    return isinstance(start, int | float) and isinstance(end, int | float) and end < start


def _cancel(context: RunContext, files: TrialFiles) -> Timing:
    """Before the grade unless it is certain that the verifier was terminal before the request."""
    asked = context.document.get("cancel_requested_at")
    if asked is None and files.supervision.get("cancel_requested") is not True:
        return Timing.NEVER
    if files.complete and is_before(files.graded_at, asked) is True:
        return Timing.AFTER_GRADE
    return Timing.BEFORE_GRADE


def _interrupted(context: RunContext, files: TrialFiles) -> bool:
    """A trial whose grade and result were whole before the interruption keeps them.

    Harbor's own result says `CancelledError` when it was stopped on the way there.
    """
    if files.complete and files.harbor.exception_type != "CancelledError":
        return False
    open_ended = files.supervision.get("ended_at") is None
    return files.supervision.get("interrupted") is True or (context.interrupted and open_ended)


def _process_lost(files: TrialFiles, deadline: Deadline | None) -> bool:
    supervision = files.supervision
    if not supervision or supervision.get("ended_at") is None:
        return False
    asked = supervision.get("cancel_requested") is True or supervision.get("deadline") or supervision.get("interrupted")
    ended_oddly = supervision.get("signal") is not None or supervision.get("exit_code") is None
    return ended_oddly and not asked and deadline is None


def _agent(context: RunContext, observed: Observed, endpoint: EndpointFacts) -> AgentFacts:
    command = observed.exec_of(AGENT, "agent")
    return AgentFacts(
        ended=command is not None and command.ended,
        exit_code=command.exit_code if command is not None else None,
        timed_out=command is not None and stopped_at_limit(command, context.limit("agent_s")),
        step_limit_reached=endpoint.completions >= context.spec.controls.max_steps,
    )


def _resources(observed: Observed) -> Resources:
    counters = [item for item in observed.counters if item.role == AGENT]
    killed = any(state.oom_killed for state in observed.states if state.role == AGENT)
    return Resources(
        available=any(item.available for item in counters),
        oom_kills=max((item.oom_kill or 0 for item in counters), default=0),
        pids_limit_hits=max((item.pids_max or 0 for item in counters), default=0),
        tmpfs_full=any(item.tmpfs_full for item in counters),
        engine_oom_killed=killed,
    )


def _verifier(observed: Observed) -> VerifierFacts:
    command = observed.exec_of(VERIFIER, "verifier")
    fetched = verifier_logs(observed)
    bad = [
        f"{transfer.purpose}: {transfer.outcome}"
        for transfer in observed.transfers
        if transfer.role == VERIFIER and transfer.outcome not in ("ok", "source_absent")
    ]
    ended = command is not None and command.ended
    if ended and fetched is None:
        bad.append("verifier_logs: not recorded")
    return VerifierFacts(
        ended=ended,
        exit_code=command.exit_code if command is not None else None,
        terminal=ended and fetched is not None,
        bad_transfers=tuple(bad),
    )


def _reward(context: RunContext, files: TrialFiles) -> Reward:
    """The reward from the attendant's own copy; Harbor rewrites its files while scrubbing."""
    kept = f"{files.base}/kept/verifier"
    return read_reward(
        context.folder.read(f"{kept}/reward.json", limit=MAX_REWARD_BYTES),
        context.folder.read(f"{kept}/reward.txt", limit=MAX_REWARD_BYTES),
        key=context.spec.scoring.reward_key,
    )


def _reported_proof(context: RunContext, files: TrialFiles, reward: Reward) -> Proof:
    """Harbor's own files, which are believed against us alone, hold no other reward."""
    value, key = reward.state.value_or_none, context.spec.scoring.reward_key
    found = [] if value is None else list(contradictions(context.folder, f"{files.base}/job", files.harbor, value, key))
    return Proof("reward.reported", "integrity.reward_differs", not found, ", ".join(found))


def _notes(context: RunContext, files: TrialFiles) -> tuple[str, ...]:
    logs = [item for item in files.observed.transfers if item.role == AGENT and item.purpose == "agent_logs"]
    notes = []
    if any(item.outcome in ("partial", "refused") for item in logs):
        notes.append("agent_logs_refused")
    elif files.present and not any(item.outcome == "ok" for item in logs):
        notes.append("agent_logs_missing")
    if files.observed.sequence and not files.observed.closed:
        notes.append("provider_record_open")
    if _command_limit_hit(context, files):
        notes.append("command_limit_hit")
    return tuple(notes)


def _command_limit_hit(context: RunContext, files: TrialFiles) -> bool:
    """By the agent's own trajectory, which it could forge: a note for people and never more."""
    path = f"{files.base}/kept/agent/mini-swe-agent.trajectory.json"
    return _COMMAND_TIMED_OUT in context.folder.read(path, limit=MAX_TRAJECTORY_BYTES).data
