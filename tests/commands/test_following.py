"""How a command waits: each change told once, Ctrl-C cancels and waits, a second one leaves."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator

import pytest

from runs.management.printing import Progress
from runs.management.waiting import Interrupts, StoppedWaiting, follow, interrupts
from runs.models import Cleanup, Run, RunState, Stage
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import lifecycle
from tests.runs.rows import ERROR, PASSED, Process, person, run_row

type Move = Callable[[], object]


class Played(Interrupts):
    """Waits by playing the next move of a script, so that no test sleeps."""

    def __init__(self, moves: Iterable[Move]) -> None:
        super().__init__()
        self.moves: Iterator[Move] = iter(moves)

    def wait(self, seconds: float) -> None:
        next(self.moves)()

    def press(self) -> None:
        self.receive(signal.SIGINT, None)


def claim(run: Run) -> bool:
    return lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")


def end(run: Run, state: RunState, verdict: Verdict) -> bool:
    return lifecycle.finish(run.pk, state=state, verdict=verdict, cleanup=Cleanup.CLEAN)


def cancelled(run: Run) -> None:
    lifecycle.close_trials(run.pk, bucket=Bucket.CANCELLED)
    end(run, RunState.CANCELLED, Verdict.CANCELLED)


def followed(run: Run, played: Interrupts) -> tuple[Run, list[str]]:
    said: list[str] = []
    ended = follow(
        run, user=person("olga", "operator"), progress=Progress(said.append, lambda _: None), interrupts=played
    )
    return ended, said


@pytest.mark.django_db
class TestFollowing:
    def test_each_change_is_said_once_and_the_end_last(self) -> None:
        run = run_row(tasks=("ledger-totals", "config-merge"))
        moves: list[Move] = [
            lambda: claim(run),
            lambda: None,
            lambda: lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=1),
            lambda: lifecycle.record_trial(run.pk, 1, PASSED),
            lambda: lifecycle.record_trial(run.pk, 2, ERROR),
            lambda: end(run, RunState.FINISHED, Verdict.INCOMPLETE),
        ]
        _, said = followed(run, Played(moves))
        assert said == [
            f"run {run.key} queued; worker local is not running: start it there with manage.py worker",
            f"run {run.key} preparing, preflight",
            f"run {run.key} running, trial 1",
            "trial 1 of 2, ledger-totals: passed",
            "trial 2 of 2, config-merge: error grading.reward_missing (No reward)",
            f"run {run.key} finished: verdict incomplete, cleanup clean",
        ]

    def test_the_first_interrupt_cancels_in_the_users_name_and_waits_for_the_end(self) -> None:
        run = run_row()
        claim(run)
        played = Played([])
        played.moves = iter([played.press, lambda: None, lambda: cancelled(run)])
        ended, said = followed(run, played)
        assert (ended.verdict, ended.cancel_requested_by_name) == ("cancelled", "olga")
        assert [line for line in said if "cancelling" in line] == [
            f"cancelling run {run.key}; interrupt again to stop waiting"
        ]

    def test_the_second_interrupt_stops_waiting_and_says_that_the_run_is_being_cancelled(self) -> None:
        run = run_row()
        claim(run)
        played = Played([])
        played.moves = iter([played.press, played.press])
        with pytest.raises(StoppedWaiting) as stopped:
            followed(run, played)
        assert stopped.value.sentence.startswith(f"Stopped waiting. Run {run.key} is being cancelled")
        assert not Run.objects.get(pk=run.pk).terminal

    def test_two_interrupts_at_once_cancel_all_the_same(self) -> None:
        run = run_row()
        claim(run)
        played = Played([])

        def press_twice() -> None:
            played.press()
            played.press()

        played.moves = iter([press_twice])
        with pytest.raises(StoppedWaiting):
            followed(run, played)
        assert Run.objects.get(pk=run.pk).cancel_requested_at is not None

    def test_a_queued_run_that_is_interrupted_ends_at_once(self) -> None:
        played = Played([lambda: None])
        played.press()
        ended, _ = followed(run_row(), played)
        assert (ended.state, ended.verdict) == ("cancelled", "cancelled")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_is_counted_and_only_the_second_breaks_in(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interrupts() as found:
        os.kill(os.getpid(), number)
        assert found.received
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
