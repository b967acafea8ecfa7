"""The time limit at which a trial was stopped, and whether it was graded before."""

from datetime import timedelta

from evidence.reading.clocks import is_before, moment
from evidence.reading.observed import AGENT, VERIFIER, Exec
from evidence.trial.facts import Deadline, Timing
from evidence.trial.files import RunContext, TrialFiles

# Harbor measures its limits around ours; a command that was stopped this close to a limit was stopped by it.
LIMIT_SLACK_S = 1.0


def read_deadline(context: RunContext, files: TrialFiles) -> Deadline | None:
    return _outer_deadline(context, files) or _phase_deadline(context, files)


def _outer_deadline(context: RunContext, files: TrialFiles) -> Deadline | None:
    """The limits of trial and run, which the supervisor enforces."""
    phase = files.supervision.get("deadline")
    start, key = files.supervision.get("started_at"), "trial_s"
    if phase is None and not files.complete and context.document.get("deadline") == "run":
        phase = "run"
    if phase == "run":
        start, key = context.document.get("started_at"), "run_s"
    if phase not in ("trial", "run"):
        return None
    limit = context.limit(key)
    late = files.complete and is_before(files.graded_at, moment_after(start, limit)) is True
    inner = None if late else _phase_deadline(context, files)
    return inner or Deadline(phase, limit, Timing.AFTER_GRADE if late else Timing.BEFORE_GRADE)


def moment_after(start: object, limit: float | None) -> str | None:
    begun = moment(start)
    return (begun + timedelta(seconds=limit)).isoformat() if begun is not None and limit is not None else None


def _phase_deadline(context: RunContext, files: TrialFiles) -> Deadline | None:
    """The first stage that was stopped at its own limit, by the attendant's record of its commands.

    The environment's start has no command; there Harbor's own times count, and only when nothing came after.
    """
    for phase, role, key in (
        ("setup", AGENT, "agent_setup_s"),
        ("agent", AGENT, "agent_s"),
        ("verifier", VERIFIER, "verifier_s"),
    ):
        command = files.observed.exec_of(role, phase)
        if command is not None and stopped_at_limit(command, context.limit(key)):
            return Deadline(phase, context.limit(key))
    return _silent_deadline(context, files)


def _silent_deadline(context: RunContext, files: TrialFiles) -> Deadline | None:
    later: tuple[object, ...] = (files.observed.exec_of(AGENT, "agent"), files.graded_at)
    if files.harbor.exception_type is None or any(later):
        return None
    for phase, key in (("environment", "environment_start_s"), ("setup", "agent_setup_s")):
        spent, limit = files.harbor.phases[phase].seconds, context.limit(key)
        if spent is not None and limit is not None and spent >= limit - LIMIT_SLACK_S / 2:
            return Deadline(phase, limit)
    return None


def stopped_at_limit(command: Exec, limit: float | None) -> bool:
    if command.timed_out:
        return True
    return not command.ended and limit is not None and command.duration_s >= limit - LIMIT_SLACK_S
