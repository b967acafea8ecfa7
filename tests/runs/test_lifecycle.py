"""Moves of a run: each by compare-and-set, each exactly once, also when two come at the same time."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as HypothesisTestCase

from runs.models import LEGAL_ENDINGS, TERMINAL_STATES, AuditEntry, Cleanup, OwnedResource, Run, RunState, Stage
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import lifecycle, transitions
from runs.services.runlog import Line, read_log
from runs.services.transitions import (
    CancelOutcome,
    Failure,
    HostBusy,
    IllegalEnding,
    IllegalTransition,
    NoSuchRun,
    NoSuchTrial,
    NotActive,
    ResourceState,
)
from tests.runs.rows import ERROR, FAILED, PASSED, Process, again, person, run_row

pytestmark = pytest.mark.django_db


def claimed(run: Run, host: str = "host") -> Run:
    assert lifecycle.claim(run.pk, worker=run.worker.name, identity=Process(), host=host)
    return run


def evaluated(run: Run, *ends: transitions.TrialEnd) -> Run:
    for ordinal, end in enumerate(ends, 1):
        assert lifecycle.record_trial(run.pk, ordinal, end)
    return run


def finish_passed(run: Run) -> bool:
    return lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN)


def finish_cancelled(run: Run) -> bool:
    lifecycle.close_trials(run.pk, bucket=Bucket.CANCELLED)
    return lifecycle.finish(run.pk, state=RunState.CANCELLED, verdict=Verdict.CANCELLED, cleanup=Cleanup.CLEAN)


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """Run the acts in threads that start together; the result or exception of each."""
    results: list[Any] = [None] * len(acts)
    barrier = threading.Barrier(len(acts))

    def one(index: int) -> None:
        try:
            barrier.wait()
            results[index] = acts[index]()
        except Exception as error:
            results[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class TestClaim:
    def test_a_queued_run_is_claimed_with_its_lease(self):
        run = again(claimed(run_row(), host="alpha"))
        assert (run.state, run.stage) == (RunState.PREPARING, Stage.PREFLIGHT)
        assert (run.lease_host, run.lease_pid, run.lease_start_ticks) == ("alpha", Process().pid, 1)
        assert run.claimed_at is not None and run.heartbeat_at is not None

    def test_a_second_claim_finds_nothing_to_do(self):
        """The start is guarded by the claim."""
        run = claimed(run_row())
        assert lifecycle.claim(run.pk, worker="local", identity=Process(), host="host") is False

    def test_another_worker_cannot_claim_it(self):
        run = run_row()
        assert lifecycle.claim(run.pk, worker="other", identity=Process(), host="h2") is False
        assert again(run).state == RunState.QUEUED

    def test_a_run_that_does_not_exist_is_not_claimed(self):
        """A worker that finds no row exits quietly."""
        unknown = "0" * 32
        assert lifecycle.claim(unknown, worker="local", identity=Process(), host="host") is False

    def test_a_cancelled_run_is_never_claimed(self):
        run = run_row()
        lifecycle.request_cancel(run.pk, user=None)
        assert lifecycle.claim(run.pk, worker="local", identity=Process(), host="host") is False

    def test_one_worker_executes_one_run_at_a_time(self):
        claimed(run_row())
        second = run_row()
        with pytest.raises(HostBusy):
            lifecycle.claim(second.pk, worker="local", identity=Process(), host="another")
        assert again(second).state == RunState.QUEUED

    def test_one_host_executes_one_run_at_a_time_whatever_its_workers_are_called(self):
        claimed(run_row(), host="shared")
        second = run_row(worker="twin")
        with pytest.raises(HostBusy):
            lifecycle.claim(second.pk, worker="twin", identity=Process(), host="shared")

    def test_a_worker_is_free_again_after_the_end(self):
        finish_passed(evaluated(claimed(run_row()), PASSED, PASSED, PASSED))
        claimed(run_row())


class TestStages:
    def test_stages_carry_their_state_and_leave_marks(self):
        run = claimed(run_row())
        for stage, trial in [
            (Stage.GATEWAY, None), (Stage.PROBE, None), (Stage.TRIAL, 1), (Stage.TRIAL, 2), (Stage.INGEST,
            None),
        ]:  # fmt: skip
            assert lifecycle.enter_stage(run.pk, stage, trial=trial)
        assert again(run).state == RunState.ENDING
        marks = list(run.stage_marks.values_list("stage", "trial"))
        assert marks == [
            ("preflight", None), ("gateway", None), ("probe", None), ("trial", 1), ("trial", 2), ("ingest",
            None),
        ]  # fmt: skip

    def test_stages_never_go_back(self):
        run = claimed(run_row())
        lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=2)
        assert not lifecycle.enter_stage(run.pk, Stage.PROBE)
        assert not lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=2)
        assert not lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=1)
        assert again(run).stage_trial == 2

    def test_a_run_that_ended_enters_no_stage(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        finish_passed(run)
        assert not lifecycle.enter_stage(run.pk, Stage.CLEANUP)
        assert not lifecycle.heartbeat(run.pk)

    def test_queued_and_ended_are_not_entered_by_themselves(self):
        run = claimed(run_row())
        for stage in (Stage.QUEUED, Stage.ENDED):
            with pytest.raises(IllegalTransition):
                lifecycle.enter_stage(run.pk, stage)


class TestCancel:
    def test_a_queued_run_is_over_at_once(self):
        run = run_row()
        olga = person("olga", "operator")
        assert lifecycle.request_cancel(run.pk, user=olga) is CancelOutcome.CANCELLED
        run = again(run)
        assert (run.state, run.verdict, run.cleanup) == ("cancelled", "cancelled", "clean")
        assert (run.count_cancelled, run.count_evaluated) == (3, 0)
        assert set(run.trials.values_list("bucket", flat=True)) == {"cancelled"}
        assert run.cancel_requested_by_name == "olga"

    def test_an_active_run_is_flagged_and_twice_is_harmless(self):
        """A double cancel is idempotent."""
        run = claimed(run_row())
        olga, otto = person("olga"), person("otto")
        assert lifecycle.cancel_requested_at(run.pk) is None
        assert lifecycle.request_cancel(run.pk, user=olga) is CancelOutcome.REQUESTED
        first = lifecycle.cancel_requested_at(run.pk)
        assert lifecycle.request_cancel(run.pk, user=otto) is CancelOutcome.ALREADY_REQUESTED
        assert first is not None and lifecycle.cancel_requested_at(run.pk) == first
        assert again(run).cancel_requested_by_name == "olga"
        assert AuditEntry.objects.filter(kind="cancel", run_id=run.pk).count() == 1

    def test_a_run_that_ended_is_left_alone(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        finish_passed(run)
        assert lifecycle.request_cancel(run.pk, user=None) is CancelOutcome.ENDED
        assert again(run).cancel_requested_at is None

    def test_an_unknown_run_is_named(self):
        with pytest.raises(NoSuchRun):
            lifecycle.request_cancel("0" * 32, user=None)
        with pytest.raises(NoSuchRun):
            lifecycle.request_cancel("r1", user=None)

    def test_finished_trials_keep_their_results(self):
        run = evaluated(claimed(run_row()), PASSED)
        lifecycle.request_cancel(run.pk, user=None)
        assert finish_cancelled(run)
        run = again(run)
        assert (run.count_passed, run.count_cancelled, run.count_evaluated) == (1, 2, 1)
        assert list(run.trials.values_list("bucket", flat=True)) == ["passed", "cancelled", "cancelled"]

    def test_cancel_first_then_the_natural_end_is_still_one_truthful_end(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        lifecycle.request_cancel(run.pk, user=None)
        assert finish_passed(run)
        run = again(run)
        assert (run.state, run.verdict) == ("finished", "passed")
        assert run.cancel_requested_at is not None

    def test_nothing_is_cancelled_that_nobody_asked_to_cancel(self):
        run = claimed(run_row())
        with pytest.raises(IllegalEnding):
            finish_cancelled(run)
        assert again(run).verdict is None


class TestTrials:
    def test_a_result_is_written_once(self):
        run = claimed(run_row())
        assert lifecycle.record_trial(run.pk, 1, FAILED)
        assert not lifecycle.record_trial(run.pk, 1, PASSED)
        run = again(run)
        assert (run.count_passed, run.count_failed, run.count_evaluated) == (0, 1, 1)
        assert run.trials.get(ordinal=1).reward == 0

    def test_an_unknown_trial_is_named(self):
        with pytest.raises(NoSuchTrial):
            lifecycle.record_trial(claimed(run_row()).pk, 4, PASSED)

    def test_nothing_is_recorded_before_the_claim_or_after_the_end(self):
        run = run_row()
        with pytest.raises(NotActive):
            lifecycle.record_trial(run.pk, 1, PASSED)
        finish_passed(evaluated(claimed(run), PASSED, PASSED, PASSED))
        with pytest.raises(NotActive):
            lifecycle.record_trial(run.pk, 1, FAILED)

    def test_what_was_seen_live_stays(self):
        run = claimed(run_row())
        assert lifecycle.start_trial(run.pk, 1, stage="agent")
        started = run.trials.get(ordinal=1).started_at
        lifecycle.record_trial(run.pk, 1, PASSED)
        trial = run.trials.get(ordinal=1)
        assert trial.started_at == started and trial.stage == ""
        assert not lifecycle.start_trial(run.pk, 1, stage="verifier")

    def test_a_trial_that_is_over_waits_for_its_judgement(self):
        run = claimed(run_row())
        assert not lifecycle.trial_over(run.pk, 1)  # it never started
        lifecycle.start_trial(run.pk, 1, stage="verifier")
        assert lifecycle.trial_over(run.pk, 1)
        trial = run.trials.get(ordinal=1)
        assert (trial.stage, trial.bucket) == ("ended", None) and trial.ended_at is not None
        evaluated(run, PASSED)
        assert not lifecycle.trial_over(run.pk, 1)
        assert run.trials.get(ordinal=1).stage == ""

    @pytest.mark.parametrize(
        "wrong",
        [
            transitions.TrialEnd(bucket=Bucket.PASSED),
            transitions.TrialEnd(bucket=Bucket.PASSED, reward=0),
            transitions.TrialEnd(bucket=Bucket.FAILED, reward=1),
            transitions.TrialEnd(bucket=Bucket.ERROR),
            transitions.TrialEnd(bucket=Bucket.ERROR, failure_class="grading", reward=2),
            transitions.TrialEnd(bucket=Bucket.PASSED, reward=1, failure_class="grading"),
        ],
    )
    def test_the_database_refuses_a_bucket_without_its_reason(self, wrong):
        run = claimed(run_row())
        with pytest.raises(IntegrityError), transaction.atomic():
            lifecycle.record_trial(run.pk, 1, wrong)
        assert again(run).count_evaluated == 0

    def test_an_evaluated_bucket_is_never_given_to_the_rest(self):
        with pytest.raises(IllegalEnding):
            lifecycle.close_trials(claimed(run_row()).pk, bucket=Bucket.PASSED)

    def test_an_interrupted_run_keeps_what_was_evaluated(self):
        """1 evaluated, 2 error worker_runtime.interrupted; the run is interrupted with verdict error."""
        run = evaluated(claimed(run_row()), PASSED)
        closed = lifecycle.close_trials(
            run.pk,
            bucket=Bucket.ERROR,
            failure_class="worker_runtime",
            failure_code="worker_runtime.interrupted",
        )
        assert closed == 2
        assert lifecycle.finish(run.pk, state=RunState.INTERRUPTED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN)
        run = again(run)
        assert (run.count_evaluated, run.count_error, run.verdict) == (1, 2, "error")


class TestFinish:
    def test_a_run_ends_exactly_once(self):
        run = evaluated(claimed(run_row()), PASSED, FAILED, PASSED)
        ending = {"state": RunState.FINISHED, "verdict": Verdict.FAILED, "cleanup": Cleanup.CLEAN}
        assert lifecycle.finish(run.pk, **ending)
        ended_at = again(run).ended_at
        assert not lifecycle.finish(run.pk, **ending | {"verdict": Verdict.ERROR})
        run = again(run)
        assert (run.verdict, run.ended_at, run.stage) == ("failed", ended_at, "ended")

    def test_its_final_log_lines_come_with_the_end_and_with_no_other(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, FAILED)
        words = [Line(source="engine", text="That was all.")]
        with pytest.raises(IllegalEnding):
            lifecycle.finish(
                run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.FAILED, final_log_lines=words
            )
        assert read_log(run).lines == []
        for _ in range(2):
            lifecycle.finish(
                run.pk, state=RunState.FINISHED, verdict=Verdict.FAILED, cleanup=Cleanup.CLEAN, final_log_lines=words
            )
        assert [line.text for line in read_log(run).lines] == ["That was all."]

    def test_a_queued_run_cannot_finish(self):
        with pytest.raises(NotActive):
            finish_passed(run_row())

    def test_every_trial_needs_its_bucket_first(self):
        run = evaluated(claimed(run_row()), PASSED)
        with pytest.raises(IllegalEnding):
            finish_passed(run)
        assert again(run).state == RunState.PREPARING

    @pytest.mark.parametrize("ends", [(PASSED, PASSED, ERROR), (FAILED, ERROR, ERROR), (FAILED, FAILED, FAILED)])
    def test_nothing_passes_that_was_not_wholly_evaluated(self, ends):
        with pytest.raises(IllegalEnding):
            finish_passed(evaluated(claimed(run_row()), *ends))

    @pytest.mark.parametrize("cleanup", [Cleanup.PENDING, Cleanup.FAILED])
    def test_nothing_passes_that_left_something_behind(self, cleanup):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        with pytest.raises(IllegalEnding):
            lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=cleanup)

    def test_only_legal_pairs_of_state_and_verdict(self):
        run = claimed(run_row())
        for state in RunState:
            for verdict in set(Verdict) - set(LEGAL_ENDINGS.get(state, ())):
                with pytest.raises(IllegalEnding):
                    lifecycle.finish(run.pk, state=state, verdict=verdict, cleanup=Cleanup.CLEAN)

    def test_the_reason_of_a_failed_run_is_kept(self):
        run = claimed(run_row())
        lifecycle.close_trials(run.pk, bucket=Bucket.ERROR, failure_class="worker_runtime", failure_code="w.e")
        failure = Failure(stage="probe", failure_class="worker_runtime", code="probe.reached_host", detail="x\0y")
        assert lifecycle.finish(
            run.pk, state=RunState.FAILED, verdict=Verdict.ERROR, cleanup=Cleanup.CLEAN, failure=failure
        )
        run = again(run)
        assert (run.failure_stage, run.failure_code, run.failure_detail) == (
            "probe",
            "probe.reached_host",
            "xy",
        )


class TestCleanup:
    def test_a_later_success_changes_the_cleanup_and_not_the_verdict(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED)
        assert lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.FAILED)
        assert lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.CLEAN)
        run = again(run)
        assert (run.verdict, run.cleanup, run.cleanup_attempts) == ("error", "clean", 3)

    def test_a_clean_run_stays_clean_and_an_active_one_has_no_result_yet(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        assert not lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.CLEAN)
        finish_passed(run)
        assert not lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.FAILED)
        with pytest.raises(IllegalTransition):
            lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.PENDING)

    def test_the_journal_is_mirrored_and_updated(self):
        run = run_row()
        first = ResourceState(nonce="n1", kind="container", role="agent", trial=1, stage="intended")
        network = ResourceState(nonce="n2", kind="network", role="network", stage="created", resource_id="f" * 64)
        lifecycle.mirror_journal(run.pk, [first, network])
        gone = ResourceState(
            nonce="n1", kind="container", role="agent", trial=1, stage="removed", resource_id="e" * 64,
            outcome="removed", attempts=2,
        )  # fmt: skip
        lifecycle.mirror_journal(run.pk, [gone])
        rows = list(OwnedResource.objects.filter(run=run))
        assert [(row.nonce, row.stage, row.left) for row in rows] == [
            ("n1", "removed", False),
            ("n2", "created", True),
        ]


class TestGuards:
    """What holds even against raw SQL."""

    def refused(self, statement: str, *parameters: Any) -> None:
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, parameters)

    def stored(self, run: Run) -> Any:
        return run.pk.hex if connection.vendor == "sqlite" else run.pk

    def test_a_verdict_is_never_rewritten(self):
        run = evaluated(claimed(run_row()), PASSED, FAILED, PASSED)
        lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.FAILED, cleanup=Cleanup.CLEAN)
        for verdict in ("error", None):
            self.refused("UPDATE runs_run SET verdict = %s WHERE id = %s", verdict, self.stored(run))
        self.refused("UPDATE runs_run SET state = 'failed' WHERE id = %s", self.stored(run))

    def test_a_spec_is_never_rewritten(self):
        run = run_row()
        self.refused("UPDATE runs_run SET spec = '{\"a\":1}' WHERE id = %s", self.stored(run))

    def test_a_verdict_never_stands_beside_a_live_state(self):
        run = claimed(run_row())
        self.refused("UPDATE runs_run SET verdict = 'error' WHERE id = %s", self.stored(run))

    def test_counts_always_add_up(self):
        run = claimed(run_row())
        self.refused("UPDATE runs_run SET count_evaluated = 1 WHERE id = %s", self.stored(run))
        self.refused("UPDATE runs_run SET count_evaluated = 4, count_passed = 4 WHERE id = %s", self.stored(run))

    def test_a_trials_result_is_never_rewritten(self):
        run = evaluated(claimed(run_row()), FAILED)
        self.refused(
            "UPDATE runs_trial SET bucket = 'passed', reward = 1 WHERE run_id = %s AND ordinal = 1",
            self.stored(run),
        )


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_of_many_claims_one_wins(self):
        run = run_row()

        def claim() -> bool:
            return lifecycle.claim(run.pk, worker="local", identity=Process(), host="host")

        assert sorted(at_once(*[claim] * 6)) == [False] * 5 + [True]

    def test_of_two_runs_one_gets_the_host(self):
        runs = [run_row(), run_row()]
        results = at_once(
            *[lambda run=run: lifecycle.claim(run.pk, worker="local", identity=Process(), host="h") for run in runs]
        )
        assert sum(result is True for result in results) == 1
        assert sum(isinstance(result, HostBusy) for result in results) == 1

    def test_cancel_against_claim_ends_in_one_of_two_truths(self):
        for _ in range(8):
            run = run_row()
            got, outcome = at_once(
                lambda run=run: lifecycle.claim(run.pk, worker="local", identity=Process(), host="host"),
                lambda run=run: lifecycle.request_cancel(run.pk, user=None),
            )
            run = again(run)
            if got:
                assert (outcome, run.state) == (CancelOutcome.REQUESTED, RunState.PREPARING)
                finish_cancelled(run)
            else:
                assert (outcome, run.state) == (CancelOutcome.CANCELLED, RunState.CANCELLED)

    def test_cancel_against_the_natural_end_ends_once(self):
        for _ in range(8):
            run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
            ended, outcome = at_once(
                lambda run=run: finish_passed(run),
                lambda run=run: lifecycle.request_cancel(run.pk, user=None),
            )
            run = again(run)
            assert ended is True and (run.state, run.verdict) == ("finished", "passed")
            assert (outcome is CancelOutcome.REQUESTED) == (run.cancel_requested_at is not None)

    def test_of_many_cancels_one_is_recorded(self):
        run = claimed(run_row())
        outcomes = at_once(*[lambda: lifecycle.request_cancel(run.pk, user=None)] * 5)
        assert sorted(outcomes) == [CancelOutcome.ALREADY_REQUESTED] * 4 + [CancelOutcome.REQUESTED]
        assert AuditEntry.objects.filter(kind="cancel").count() == 1

    def test_two_ends_at_once_are_one(self):
        run = evaluated(claimed(run_row()), PASSED, PASSED, PASSED)
        ends = at_once(
            lambda: finish_passed(run),
            lambda: lifecycle.finish(run.pk, state=RunState.INTERRUPTED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED),
        )
        assert sorted(ends) == [False, True]
        assert again(run).verdict in ("passed", "error")

    def test_trials_recorded_at_once_are_all_counted(self):
        run = claimed(run_row())
        ends = at_once(
            *[lambda n=n: lifecycle.record_trial(run.pk, n, PASSED) for n in (1, 2, 3)],
            *[lambda n=n: lifecycle.record_trial(run.pk, n, FAILED) for n in (1, 2, 3)],
        )
        run = again(run)
        assert sum(end is True for end in ends) == 3 and run.count_evaluated == 3


MOVES = st.sampled_from(
    ["claim", "heartbeat", "preflight", "trial", "cleanup", "cancel", "pass1", "fail2", "error3", "close",
    "finish",
     "finish_cancelled", "interrupt", "cleaned"]
)  # fmt: skip


class TestAnyOrder(HypothesisTestCase):
    @settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(MOVES, max_size=14))
    def test_any_order_of_moves_keeps_what_must_hold(self, moves):
        run = run_row()
        seen: set[str] = set()
        for move in moves:
            self.play(run, move)
            now = again(run)
            if now.verdict:
                seen.add(now.verdict)
            assert len(seen) <= 1, "a verdict is written once"
            assert (now.verdict is not None) == (now.state in TERMINAL_STATES)
            settled = now.count_evaluated + now.count_error + now.count_cancelled
            assert settled == now.count_requested if now.terminal else settled <= now.count_requested
            assert now.verdict != "cancelled" or now.cancel_requested_at is not None

    def play(self, run: Run, move: str) -> None:
        acts: dict[str, Callable[[], Any]] = {
            "claim": lambda: lifecycle.claim(run.pk, worker="local", identity=Process(), host="host"),
            "heartbeat": lambda: lifecycle.heartbeat(run.pk),
            "preflight": lambda: lifecycle.enter_stage(run.pk, Stage.PREFLIGHT),
            "trial": lambda: lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=1),
            "cleanup": lambda: lifecycle.enter_stage(run.pk, Stage.CLEANUP),
            "cancel": lambda: lifecycle.request_cancel(run.pk, user=None),
            "pass1": lambda: lifecycle.record_trial(run.pk, 1, PASSED),
            "fail2": lambda: lifecycle.record_trial(run.pk, 2, FAILED),
            "error3": lambda: lifecycle.record_trial(run.pk, 3, ERROR),
            "close": lambda: lifecycle.close_trials(
                run.pk,
                bucket=Bucket.ERROR,
                failure_class="worker_runtime",
                failure_code="worker_runtime.lost",
            ),
            "finish": lambda: finish_passed(run),
            "finish_cancelled": lambda: finish_cancelled(run),
            "interrupt": lambda: lifecycle.finish(
                run.pk, state=RunState.INTERRUPTED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED
            ),
            "cleaned": lambda: lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.CLEAN),
        }
        try:
            with transaction.atomic():
                acts[move]()
        except IllegalTransition:
            pass
