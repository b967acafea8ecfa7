"""How does a command wait for a run? One line per change, until the run has ended."""

from collections.abc import Callable
from functools import partial

from django.contrib.auth.models import User

from benchsite.lib.database_retry import patiently
from runs.management.interrupts import Interrupts
from runs.management.run_words import counts_aloud, state_line, trial_line
from runs.models import Run
from runs.services import lifecycle

POLL_S = 0.5


class StoppedWaiting(KeyboardInterrupt):
    """Somebody would not wait any longer. ``sentence`` says what becomes of the run."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


def follow(
    run: Run, *, user: User, say: Callable[[str], None], show: Callable[[str], None], interrupts: Interrupts
) -> Run:
    """Wait until ``run`` has ended, saying each change once; ``show`` gets its counts again and again.

    The first interrupt cancels the run in the name of ``user`` and waits on; the second one raises StoppedWaiting.
    """
    said: set[str] = set()
    asked = False
    try:
        while True:
            run = patiently(partial(_again, run))
            for line in _lines(run):
                if line not in said:
                    say(line)
            said |= set(_lines(run))
            if run.terminal:
                return run
            show(f"{run.key[:8]} {run.stage} · {counts_aloud(run)}")
            if interrupts.asked and not asked:
                asked = True
                say(f"cancelling run {run.key}; interrupt again to stop waiting")
                lifecycle.request_cancel(run.pk, user=user)
            interrupts.wait(POLL_S)
    except KeyboardInterrupt:
        raise StoppedWaiting(_left_alone(run, user)) from None


def _again(run: Run) -> Run:
    related = ("profile", "bundle", "endpoint", "worker")
    return Run.objects.select_related(*related).prefetch_related("trials").get(pk=run.pk)


def _lines(run: Run) -> list[str]:
    """All that is known now. A state is told before the trials that ended in it; the end comes last."""
    trials = [trial_line(trial, run.count_requested) for trial in run.trials.all() if trial.bucket]
    return [*trials, state_line(run)] if run.terminal else [state_line(run), *trials]


def _left_alone(run: Run, user: User) -> str:
    """Asks again, since the interrupt may have broken off the first request."""
    ended = lifecycle.request_cancel(run.pk, user=user) is lifecycle.CancelOutcome.ENDED
    what = "has ended" if ended else "is being cancelled"
    return f"Stopped waiting. Run {run.key} {what}; see: manage.py status {run.key[:8]}"
