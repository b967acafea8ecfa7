"""States, stages and cleanup states of a run, and which states and verdicts go together."""

from django.db.models import TextChoices

from runs.outcomes.buckets import Verdict


class RunState(TextChoices):
    """Where a run is: ``queued``, ``preparing``, ``running``, ``ending``, then a terminal one."""

    QUEUED = "queued", "Queued"
    PREPARING = "preparing", "Preparing"
    RUNNING = "running", "Running"
    ENDING = "ending", "Ending"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"
    INTERRUPTED = "interrupted", "Interrupted"
    FAILED = "failed", "Failed"


class Stage(TextChoices):
    """What exactly a run is doing; finer than its state."""

    QUEUED = "queued", "Queued"
    PREFLIGHT = "preflight", "Preflight"
    GATEWAY = "gateway", "Networks and gateway"
    PROBE = "probe", "Egress probe"
    TRIAL = "trial", "Trial"
    INGEST = "ingest", "Ingest"
    CLEANUP = "cleanup", "Cleanup"
    ENDED = "ended", "Ended"


class Cleanup(TextChoices):
    """Whether everything that a run owned is gone; separate from the verdict."""

    PENDING = "pending", "Pending"
    CLEAN = "clean", "Clean"
    FAILED = "failed", "Failed"
    # A person looked at the host and says so; nobody verified it.
    DECLARED = "declared", "Declared resolved"


# What nothing more is to be done about, by the program at least.
OVER = (Cleanup.CLEAN, Cleanup.DECLARED)

ACTIVE_STATES = (RunState.PREPARING, RunState.RUNNING, RunState.ENDING)
TERMINAL_STATES = (RunState.FINISHED, RunState.CANCELLED, RunState.INTERRUPTED, RunState.FAILED)

STATE_OF_STAGE: dict[Stage, RunState] = {
    Stage.PREFLIGHT: RunState.PREPARING,
    Stage.GATEWAY: RunState.PREPARING,
    Stage.PROBE: RunState.PREPARING,
    Stage.TRIAL: RunState.RUNNING,
    Stage.INGEST: RunState.ENDING,
    Stage.CLEANUP: RunState.ENDING,
}

# Which verdicts a terminal state may carry. ``finished`` means that every trial was attempted, ``failed``
# that the run itself could not be carried out (preflight, gateway, probe …), ``interrupted`` that its
# worker was lost. A run whose cancellation was asked for before its worker was lost stays ``cancelled``.
LEGAL_ENDINGS: dict[RunState, tuple[Verdict, ...]] = {
    RunState.FINISHED: (Verdict.PASSED, Verdict.FAILED, Verdict.INCOMPLETE, Verdict.ERROR),
    RunState.CANCELLED: (Verdict.CANCELLED,),
    RunState.INTERRUPTED: (Verdict.ERROR, Verdict.CANCELLED),
    RunState.FAILED: (Verdict.ERROR, Verdict.INCOMPLETE),
}
