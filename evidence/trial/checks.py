"""All checks and proofs of one trial: journal, attendant's record, stored files and spec against each other."""

from dataclasses import asdict
from itertools import islice

from evidence.harbor.job import HarborFacts
from evidence.reading.clocks import moment
from evidence.reading.observed import AGENT, VERIFIER, Observed
from evidence.reading.proofs import Proof, equal
from evidence.trial.agent_output import outputs
from evidence.trial.configured_checks import configuration_checks
from evidence.trial.container_checks import container_checks
from evidence.trial.course import Course, deviations, missing
from evidence.trial.files import RunContext, TrialFiles, ended_by_itself, text
from evidence.trial.kept_checks import (
    REWARDS,
    kept_checks,
    recorded_proof,
    verifier_input_check,
    whole_input_proof,
)
from evidence.trial.reviewed_files import course_of, reviewed_checks, sent, sent_proof
from evidence.trial.run_checks import owned_check
from runs.ownership.document import JournalDocument

_TIMES = "integrity.times_inverted"
CLOCK_SLACK_S = 2.0
_COURSE = "integrity.record_course"
# Tar headers hold whole seconds, so a file may seem up to this much older than it is.
MTIME_SLACK_S = 2.0


def own_checks(context: RunContext, files: TrialFiles, trial: int) -> list[Proof]:
    """Every comparison of row 1 that needs more than Harbor's files. Of a record out of its course nothing
    is believed, so that the files that it names, as often as it likes, are not even read."""
    course = _course_check(files, course_of(context.manifest, files.task))
    believed = course.ok and not files.observed.problems
    folders = files.harbor.folders
    only = folders[0] if len(folders) == 1 else None
    return [
        Proof("job.one_trial", "integrity.duplicate_trial", len(folders) <= 1, f"{len(folders)} folders"),
        *container_checks(files.observed, context.journal, context.spec, trial, only),
        *_uuid_checks(files.observed, files.harbor, context.journal, trial),
        *reviewed_checks(context.manifest, files.task, files.observed),
        *_configuration_checks(context, files),
        *_process_checks(context, files, trial),
        owned_check(context.journal, files.observed, trial),
        *_interval_checks(context, files),
        _steps_check(context, trial),
        *(kept_checks(context.folder, files.base, files.observed) if believed else []),
        course,
        verifier_input_check(files.observed),
        _reward_age_check(files.observed),
    ]


def proof_checks(context: RunContext, files: TrialFiles, trial: int) -> tuple[Proof, ...]:
    """The parts of the proof of execution that row 9 asks for, beside the agent's end and a completion."""
    missing = "invalid_evaluation.proof_missing"
    observed = files.observed
    opened = {opened.role for opened in observed.opened}
    identified = bool(_journaled_uuids(context.journal, trial)) and files.harbor.trial_uuid is not None
    return (
        Proof("proof.trial_uuid", missing, identified, "no journaled id or no result id"),
        Proof("proof.agent_image", missing, AGENT in opened, "no agent container seen"),
        _version_check(observed, context.spec.harness.agent_version),
        Proof("proof.verifier_container", "invalid_evaluation.not_verified_separately", VERIFIER in opened),
        Proof("proof.verifier_tests", missing, bool(sent(observed, VERIFIER, "tests")), "no grading program was sent"),
        Proof(
            "observed.order", "integrity.times_inverted", not observed.clock_went_back, "the record's clock goes back"
        ),
        Proof("proof.outputs", missing, bool(outputs(observed)), "no output was copied out of the agent's container"),
        whole_input_proof(observed),
        sent_proof(context.manifest, files.task, observed),
        recorded_proof(context.folder, files.base, observed),
        _complete_proof(files, course_of(context.manifest, files.task)),
    )


def _configuration_checks(context: RunContext, files: TrialFiles) -> list[Proof]:
    """Once a container was opened, Harbor and the attendant had been given their configurations."""
    if not files.observed.opened:
        return []
    run_id = text(context.document.get("run_id"))
    return configuration_checks(context.folder, files.base, context.spec, run_id, context.journal, files.task.name)


def _process_checks(context: RunContext, files: TrialFiles, trial: int) -> list[Proof]:
    """The process that was supervised is the one that recorded itself before it became Harbor (design 4)."""
    if context.journal is None or not files.observed.opened or not files.supervision:
        return []
    own = [asdict(each.identity) for each in context.journal.processes if each.trial == trial]
    supervised = files.supervision.get("process")
    why = "the supervised process is not the journaled one"
    return [Proof("supervision.process", "integrity.trial_identity", supervised in own, why)]


def _interval_checks(context: RunContext, files: TrialFiles) -> list[Proof]:
    """The trial lies within the run, and its record within the trial, by the wall clock and by the monotonic one."""
    if not files.supervision:
        return []
    run, events = context.document, files.observed.sequence
    start, end = files.supervision["started_at"], files.supervision["ended_at"]
    outer = _is_within(start, end, run.get("started_at"), run.get("ended_at"))
    inner = not events or _is_within(min(e.at for e in events), max(e.at for e in events), start, end)
    mono = all(files.supervision["mono_started"] <= e.mono <= files.supervision["mono_ended"] for e in events)
    return [
        Proof("trial.times", _TIMES, outer, "outside the run's time"),
        Proof("observed.times", _TIMES, inner and mono, "outside the trial's time"),
    ]


def _is_within(first: object, last: object, start: object, end: object) -> bool:
    """Whether an interval lies in another, as far as both ends were recorded; a clock may be set a little meanwhile."""
    begun, ended, opened, closed = (moment(time) for time in (first, last, start, end))
    early = begun is not None and opened is not None and (opened - begun).total_seconds() > CLOCK_SLACK_S
    late = ended is not None and closed is not None and (ended - closed).total_seconds() > CLOCK_SLACK_S
    return not early and not late


def _steps_check(context: RunContext, trial: int) -> Proof:
    """The gateway lets no trial ask more than the confirmed number of times."""
    answered = len(context.ledger.trial(trial).completions)
    within = answered <= context.spec.controls.max_steps
    return Proof("ledger.steps", "invalid_evaluation.other_controls", within, f"{answered} answers of the model")


def _version_check(observed: Observed, expected: str) -> Proof:
    """The version was read before the agent's command began (agent_info only echoes the config)."""
    command = observed.exec_of(AGENT, "agent")
    began = command.started_mono if command else None
    before = [item for item in observed.versions if began is None or item.mono <= began]
    return equal(
        "proof.agent_version",
        "invalid_evaluation.agent_version",
        expected,
        before[-1].version if before else None,
    )


def _uuid_checks(observed: Observed, harbor: HarborFacts, journal: JournalDocument | None, trial: int) -> list[Proof]:
    """All ids of the trial that were recorded anywhere are one id."""
    seen = {opened.trial_uuid for opened in observed.opened}
    known = seen | _journaled_uuids(journal, trial)
    why = f"journal and attendant name {len(known)} ids for it"
    checks = [Proof("trial.one_id", "integrity.trial_identity", len(known) <= 1, why)]
    if harbor.trial_uuid is not None and known:
        why = "the id in Harbor's result is not the journaled one"
        checks.append(Proof("trial.result_id", "integrity.trial_identity", known == {harbor.trial_uuid}, why))
    return checks


def _journaled_uuids(journal: JournalDocument | None, trial: int) -> set[str]:
    if journal is None:
        return set()
    intents = (resource.intent for resource in journal.resources)
    return {intent.trial_uuid for intent in intents if intent.trial == trial and intent.trial_uuid is not None}


def _course_check(files: TrialFiles, course: Course) -> Proof:
    """What was done stands in its order, each step as often as it may, and nothing else."""
    found = list(islice(deviations(files.observed, course), 5))
    return Proof("observed.course", _COURSE, not found, "; ".join(found))


def _complete_proof(files: TrialFiles, course: Course) -> Proof:
    """Nothing of what a graded trial goes through is missing."""
    found = list(islice(missing(files.observed, course, ended=ended_by_itself(files)), 5))
    return Proof("observed.complete", _COURSE, not found, "; ".join(found))


def _reward_age_check(observed: Observed) -> Proof:
    """A reward that is older than its verifier's container was not written by it.

    Its time is the one that it had in the container, as the attendant recorded it: those of copies are whatever made
    them. Records of earlier versions have none.
    """
    opened = [moment(item.at) for item in observed.opened if item.role == VERIFIER]
    began = opened[-1] if opened else None
    limit = began.timestamp() - MTIME_SLACK_S if began is not None else None
    times = [
        entry.modified
        for item in observed.transfers
        if item.role == VERIFIER and item.purpose == "verifier_logs"
        for entry in item.entries
        if entry.path in REWARDS
    ]
    old = limit is not None and any(isinstance(time, int) and time < limit for time in times)
    return Proof("reward.age", "integrity.reward_before_verifier", not old, "older than the verifier's container")
