"""What a crash left behind on this host is concluded, cleaned or put again; nothing is executed again."""

import os
import signal
import subprocess
import sys
import time

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.ending import recovery
from runs.engine.ending.recovery import RecoveryBusy, lease_is_alive, recover, recover_run, retry_cleanup
from runs.models import AuditEntry, Cleanup, OwnedResource, Run, RunState, Stage, Worker
from runs.outcomes.buckets import Bucket, Verdict
from runs.ownership import Journal, Outcome, Role, process_identity
from runs.services import lifecycle, lost_hosts, transitions
from tests.runs import fake_engine
from tests.runs.rows import PASSED, Process, again, person, run_row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("real_queue")]


@pytest.fixture(autouse=True)
def engine(monkeypatch) -> None:
    fake_engine.install(monkeypatch)


def claimed_by(identity, *, host: str = "", worker: str = "local") -> Run:
    run = run_row(worker=worker)
    assert lifecycle.claim(run.pk, worker=worker, identity=identity, host=host or settings.WORKER_HOST)
    return Run.objects.get(pk=run.pk)


def me():
    identity = process_identity(os.getpid())
    assert identity is not None
    return identity


def ended(cleanup: Cleanup, *, host: str = "") -> Run:
    run = claimed_by(Process(), host=host)
    for ordinal in (1, 2, 3):
        lifecycle.record_trial(run.pk, ordinal, PASSED)
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=cleanup)
    return again(run)


class TestLease:
    """Pid, start time and boot id together; a pid alone proves nothing."""

    def test_the_process_that_claimed_it_lives(self):
        assert lease_is_alive(claimed_by(me()))

    def test_a_reused_pid_is_another_process(self):
        mine = me()
        assert not lease_is_alive(claimed_by(Process(mine.pid, mine.start_ticks - 1, mine.boot_id)))

    def test_a_booted_host_has_none_of_its_processes_left(self):
        mine = me()
        assert not lease_is_alive(claimed_by(Process(mine.pid, mine.start_ticks, Process().boot_id)))

    def test_a_dead_process_that_nobody_waited_for_is_dead(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        identity = process_identity(child.pid)
        assert identity is not None
        run = claimed_by(identity)
        assert lease_is_alive(run)
        child.kill()
        deadline = time.monotonic() + 60
        while lease_is_alive(run) and time.monotonic() < deadline:
            time.sleep(0.02)  # until the kernel made it a zombie, which nobody has reaped yet
        assert not lease_is_alive(run)
        child.wait()

    @given(st.integers(min_value=1, max_value=2**31 - 1))
    def test_a_run_without_a_claim_is_never_alive(self, pid):
        assert not lease_is_alive(Run(lease_pid=None))
        assert not lease_is_alive(Run(lease_pid=pid, lease_start_ticks=0, lease_boot_id=Process().boot_id))


class TestLostRuns:
    def test_a_run_whose_process_is_gone_is_interrupted(self):
        """What was evaluated stays; the rest is worker_runtime.interrupted; the verdict is error."""
        run = claimed_by(Process())
        lifecycle.record_trial(run.pk, 1, PASSED)
        report = recover("local")
        run = again(run)
        assert report.interrupted == [run.key] and report.enqueued == []
        assert (run.state, run.verdict, run.count_evaluated, run.count_error) == ("interrupted", "error", 1, 2)
        assert set(run.trials.filter(bucket="error").values_list("failure_code", flat=True)) == {
            "worker_runtime.interrupted"
        }

    def test_a_run_whose_process_lives_is_left_alone(self):
        run = claimed_by(me())
        report = recover("local")
        assert report.alive == [run.key] and report.interrupted == []
        assert again(run).state == RunState.PREPARING

    def test_runs_of_other_hosts_are_left_alone(self):
        run = claimed_by(Process(), host="another-host")
        report = recover("local")
        assert report.interrupted == [] and report.alive == []
        assert again(run).state == RunState.PREPARING

    def test_a_second_pass_finds_nothing(self):
        run = claimed_by(Process())
        recover("local")
        ended_at = again(run).ended_at
        assert recover("local").interrupted == [] and again(run).ended_at == ended_at

    def test_one_run_that_cannot_be_concluded_keeps_no_other_from_it(self, monkeypatch):
        broken = claimed_by(Process())
        monkeypatch.setattr(recovery, "_conclude", lambda run: 1 / 0)
        report = recover("local")
        assert report.interrupted == [] and broken.key in report.problems[0] and not report.clean
        assert again(broken).state == RunState.PREPARING

    def test_only_the_named_run_is_concluded(self):
        run = claimed_by(Process())
        assert not recover_run("0" * 32)
        assert recover_run(run.key) and again(run).terminal
        assert not recover_run(run.key)


class TestQueuedRuns:
    def test_a_queued_run_without_a_job_is_put_again_under_its_id(self):
        run = run_row()
        assert recover("local").enqueued == [run.key]
        assert recover("local").enqueued == []

    def test_an_interrupted_run_is_never_put_again(self):
        claimed_by(Process())
        recover("local")
        assert recover("local").enqueued == []


class TestCleanup:
    def journal(self, run: Run) -> Journal:
        folder = settings.DATA / "runs" / run.key
        folder.mkdir(parents=True)
        return Journal.create(folder, run_id=run.key)

    def test_a_run_that_created_nothing_is_clean(self):
        run = ended(Cleanup.FAILED)
        assert retry_cleanup(run.key) is Cleanup.CLEAN
        assert (again(run).cleanup, again(run).verdict) == ("clean", "error")

    def test_a_lost_journal_is_not_taken_for_nothing_owned(self):
        run = ended(Cleanup.FAILED)
        OwnedResource.objects.create(
            run=run, nonce="n", kind="container", role="agent", stage="started", resource_id="a" * 64
        )
        assert retry_cleanup(run.key) is Cleanup.FAILED
        assert again(run).cleanup_attempts == 2

    def test_a_settled_journal_is_clean_without_an_engine(self, monkeypatch):
        run = ended(Cleanup.FAILED)
        journal = self.journal(run)
        intent = journal.intend(Role.AGENT, trial=1)
        with journal.creating(intent) as slot:
            slot.persist("a" * 64)
        journal.record_outcome(intent.nonce, Outcome.REMOVED)
        monkeypatch.setattr(
            "runs.engine.host.same_engine.connect", lambda timeout_s: pytest.fail("no engine is needed")
        )
        assert recover("local").cleaned == [run.key]
        resource = OwnedResource.objects.get(run=run)
        assert (resource.resource_id, resource.left) == ("a" * 64, False)

    def test_a_corrupt_journal_stays_a_failed_cleanup(self):
        run = ended(Cleanup.FAILED)
        journal = self.journal(run)
        journal.path.write_text("{")
        report = recover("local")
        assert report.not_clean == [run.key] and not report.clean
        assert (again(run).cleanup, again(run).verdict) == ("failed", "error")

    def test_a_run_that_is_carried_out_has_no_cleanup_to_retry(self):
        with pytest.raises(transitions.NoSuchRun):
            retry_cleanup(claimed_by(me()).key)


def test_a_recovery_that_is_killed_leaves_its_run_and_no_lock_to_the_next_one(tmp_path):
    """A worker that dies in its start-up recovery: the kernel frees the lock, and the run is still there."""
    marker = tmp_path / "in the middle"
    child = os.fork()
    if child == 0:
        with recovery._one_at_a_time(wait=True):
            marker.touch()
            signal.pause()
        os._exit(1)
    deadline = time.monotonic() + 60
    while not marker.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run = claimed_by(Process())
    with pytest.raises(RecoveryBusy):
        recover("local", wait=False)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert recover("local", wait=False).interrupted == [run.key]
    assert (again(run).state, again(run).verdict) == ("interrupted", "error")


def test_one_recovery_runs_at_a_time_on_a_host():
    with recovery._one_at_a_time(wait=True), pytest.raises(RecoveryBusy):
        recover("local", wait=False)


class TestLostHost:
    def test_its_runs_end_as_interrupted_with_a_failed_cleanup(self):
        run = claimed_by(Process(), host="far-away", worker="far")
        lifecycle.record_trial(run.pk, 1, PASSED)
        queued = run_row(worker="far")
        root = person("ada", "admin")
        assert lost_hosts.declare_host_lost(user=root, worker=run.worker) == [run]
        run = again(run)
        assert (run.state, run.verdict, run.cleanup) == ("interrupted", "error", "failed")
        assert (run.count_passed, run.count_error, run.failure_code) == (1, 2, lost_hosts.LOST_CODE)
        assert again(queued).state == RunState.QUEUED
        entry = AuditEntry.objects.get(kind="host_lost")
        assert (entry.actor_name, entry.detail) == ("ada", {"runs": [run.key]})

    def test_a_run_that_was_being_cancelled_ends_as_cancelled(self):
        run = claimed_by(Process(), host="far-away", worker="far")
        lifecycle.request_cancel(run.pk, user=None)
        lost_hosts.declare_host_lost(user=person("ada", "admin"), worker=run.worker)
        assert (again(run).state, again(run).cleanup) == ("cancelled", "failed")
        assert set(run.trials.values_list("bucket", flat=True)) == {Bucket.CANCELLED}

    def test_twice_is_once(self):
        run = claimed_by(Process(), host="far-away", worker="far")
        root = person("ada", "admin")
        lost_hosts.declare_host_lost(user=root, worker=run.worker)
        assert lost_hosts.declare_host_lost(user=root, worker=run.worker) == []
        assert AuditEntry.objects.filter(kind="host_lost").count() == 1

    def test_a_worker_that_serves_is_not_lost(self):
        run = claimed_by(Process(), host="far-away", worker="far")
        Worker.objects.filter(name="far").update(pid=7, heartbeat_at=timezone.now())
        with pytest.raises(lost_hosts.StillServing):
            lost_hosts.declare_host_lost(user=person("ada", "admin"), worker=run.worker)
        assert again(run).active and not AuditEntry.objects.exists()

    @pytest.mark.parametrize("role", ["viewer", "operator", "reviewer"])
    def test_only_administrators_declare_it(self, role):
        with pytest.raises(PermissionDenied):
            lost_hosts.declare_host_lost(user=person("pat", role), worker=run_row().worker)

    def test_when_it_returns_it_reconciles(self):
        run = claimed_by(Process())
        lost_hosts.declare_host_lost(user=person("ada", "admin"), worker=run.worker)
        assert lost_hosts.back_in_service("local") and not lost_hosts.back_in_service("local")
        assert recover("local").cleaned == [run.key]
        run = again(run)
        assert (run.state, run.verdict, run.cleanup) == ("interrupted", "error", "clean")
        assert Worker.objects.get(name="local").lost_declared_at is None

    def test_a_partitioned_worker_learns_that_its_run_is_over(self):
        run = claimed_by(me(), host="far-away", worker="far")
        lost_hosts.declare_host_lost(user=person("ada", "admin"), worker=run.worker)
        assert not lifecycle.heartbeat(run.pk)
        assert not lifecycle.enter_stage(run.pk, Stage.TRIAL, trial=1)
        with pytest.raises(transitions.NotActive):
            lifecycle.record_trial(run.pk, 1, PASSED)
