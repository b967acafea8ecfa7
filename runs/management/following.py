"""How does a command wait for a run? One line per change; Ctrl-C asks the run to cancel and goes on
waiting."""

import time
from collections.abc import Callable

from django.contrib.auth.models import User

from runs import lifecycle
from runs.management.run_words import count_strip, state_line
from runs.models import Run
from runs.patience import patiently

POLL_S = 0.5


def follow(run: Run, *, user: User, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> Run:
    """Wait until ``run`` has ended, saying each change once; ends with the count strip.

    The first Ctrl-C cancels the run in the name of ``user``; the second one stops waiting.
    """
    said, interrupted = "", False
    while True:
        try:
            run = _again(run)
            if state_line(run) != said:
                said = state_line(run)
                say(said)
            if run.terminal:
                say(count_strip(run))
                return run
            sleep(POLL_S)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            say(f"cancelling run {run.key}; press Ctrl-C again to stop waiting")
            lifecycle.request_cancel(run.pk, user=user)


def _again(run: Run) -> Run:
    related = ("profile", "bundle", "endpoint", "worker")
    return patiently(lambda: Run.objects.select_related(*related).get(pk=run.pk))
