"""A cleanup that nobody can finish: declared by a person, with a reason, and never mistaken for a verified one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.utils import timezone

from evidence.register import retention
from runs.containers import EngineError
from runs.engine.ending import leftovers
from runs.engine.ending.leftovers import require_nothing_left
from runs.engine.ending.recovery import recover, retry_cleanup
from runs.engine.host.same_engine import remember_engine
from runs.models import AuditEntry, Cleanup, OwnedResource, Run, RunState, Worker
from runs.outcomes.buckets import Verdict
from runs.ownership import Journal, Outcome, Role
from runs.services import lifecycle, transitions
from runs.services.cleaning import NotDeclarable, declare_resolved, request_cleanup
from runs.services.refusals import BadInput
from runs.services.runlog import Line, append_log
from runs.web.presenting.banner import Situation, banner, counts_of
from runs.web.presenting.owned import owned
from runs.web.presenting.run_rows import run_row as listed
from tests.runs.rows import PASSED, Process, again, person, run_row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("real_queue")]
WHY = "Ada looked at the host: no container, no network"


class Answering:
    """An engine that knows these ids, each with the run that its label names."""

    def __init__(self, identity: str = "one", **found: str) -> None:
        self.identity, self.found = identity, found

    def info(self) -> dict[str, str]:
        return {"ID": self.identity, "DockerRootDir": "/var/lib/docker"}

    def containers(self, *, all: bool = False, filters: dict[str, Any]) -> list[dict[str, Any]]:
        assert all, "a created container counts too"
        return [{"Id": key} for key, run in self.found.items() if filters == {"label": f"benchsite.run={run}"}]

    def networks(self, *, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return []

    def inspect_container(self, container: str) -> dict[str, Any]:
        if container not in self.found:
            raise EngineError("engine_absent", "No.", "404", 404)
        return {}

    inspect_network = inspect_container


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Answering:
    api = Answering()
    monkeypatch.setattr(leftovers, "connect", lambda *_: api)
    monkeypatch.setattr("runs.engine.host.same_engine.connect", lambda *_: api)
    return api


def failed(*, host: str = "", resource: str = "") -> Run:
    """A graded run whose cleanup failed; its folder is gone, and of a resource only the row is left."""
    run = run_row()
    lifecycle.claim(run.pk, worker="local", identity=Process(), host=host or settings.WORKER_HOST)
    for ordinal in (1, 2, 3):
        lifecycle.record_trial(run.pk, ordinal, PASSED)
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED)
    if resource:
        values = {"nonce": "n", "kind": "container", "role": "agent", "stage": "started", "resource_id": resource}
        OwnedResource.objects.create(run=run, **values)
    return again(run)


def journal_of(run: Run) -> Journal:
    (settings.DATA / "runs").mkdir(exist_ok=True, parents=True)
    return Journal.create(settings.DATA / "runs" / run.key, run_id=run.key)


def ada() -> Any:
    return person("ada", "admin")


class TestWho:
    @pytest.mark.parametrize("role", ["viewer", "operator", "reviewer"])
    def test_only_an_administrator_declares(self, role: str) -> None:
        run = failed(host="elsewhere")
        with pytest.raises(PermissionDenied):
            declare_resolved(user=person("olga", role), run=run, reason=WHY)
        assert again(run).cleanup == "failed"

    def test_it_is_written_down_who_said_it_and_why(self) -> None:
        run = failed(host="elsewhere")
        declare_resolved(user=ada(), run=run, reason=f"  {WHY}\n ")
        entry = AuditEntry.objects.get(kind="cleanup_declared")
        assert (entry.actor_name, entry.run_id, entry.detail) == ("ada", run.pk, {"reason": WHY})
        assert (again(run).cleanup_declared_by_name, again(run).cleanup_reason) == ("ada", WHY)

    @pytest.mark.parametrize("reason", ["", " \n", "x" * 501])
    def test_without_a_reason_of_a_sentence_nothing_is_declared(self, reason: str) -> None:
        run = failed(host="elsewhere")
        with pytest.raises(BadInput, match="reason") as refused:
            declare_resolved(user=ada(), run=run, reason=reason)
        assert (refused.value.code, again(run).cleanup) == ("cleanup.no_reason", "failed")

    def test_the_database_takes_no_declaration_without_name_and_reason(self) -> None:
        run = failed()
        with pytest.raises(IntegrityError):
            Run.objects.filter(pk=run.pk).update(cleanup="declared")


class TestWhat:
    def test_verdict_and_counts_and_what_is_written_of_resources_stay(self) -> None:
        run = failed(host="elsewhere", resource="a" * 64)
        declare_resolved(user=ada(), run=run, reason=WHY)
        now = again(run)
        assert (now.cleanup, now.verdict, now.count_passed, now.count_evaluated) == ("declared", "error", 3, 3)
        assert OwnedResource.objects.get(run=run).left

    def test_a_run_that_has_not_ended_is_not_declared(self) -> None:
        with pytest.raises(BadInput) as refused:
            declare_resolved(user=ada(), run=run_row(), reason=WHY)
        assert refused.value.code == "cleanup.not_ended"

    def test_a_clean_or_declared_run_is_not_declared_again(self) -> None:
        run = failed(host="elsewhere")
        declare_resolved(user=ada(), run=run, reason=WHY)
        with pytest.raises(BadInput) as refused:
            declare_resolved(user=ada(), run=again(run), reason="another")
        assert (refused.value.code, again(run).cleanup_reason) == ("cleanup.not_failed", WHY)

    def test_a_cleanup_that_became_clean_meanwhile_stays_clean(self) -> None:
        run = failed(host="elsewhere")
        lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.CLEAN)  # the row that was looked at still says failed
        with pytest.raises(BadInput) as refused:
            declare_resolved(user=ada(), run=run, reason=WHY)
        assert refused.value.code == "cleanup.not_failed"
        assert again(run).cleanup == "clean" and not AuditEntry.objects.filter(kind="cleanup_declared").exists()

    def test_nothing_tries_it_again_or_calls_it_failed_or_clean(self) -> None:
        run = failed()
        lifecycle.declare_resolved(run.pk, user=ada(), reason=WHY)
        report = recover("local")
        assert (report.cleaned, report.not_clean) == ([], [])
        assert retry_cleanup(run.key) is Cleanup.DECLARED
        assert not request_cleanup(user=ada(), run=again(run))
        assert not lifecycle.cleanup_changed(run.pk, cleanup=Cleanup.FAILED)
        assert (again(run).cleanup, again(run).cleanup_attempts) == ("declared", 1)

    def test_a_declaration_is_no_result_of_an_attempt(self) -> None:
        with pytest.raises(transitions.IllegalTransition):
            lifecycle.cleanup_changed(failed().pk, cleanup=Cleanup.DECLARED)

    def test_its_evidence_may_expire(self) -> None:
        run = failed()
        future = datetime.now(UTC) + timedelta(days=1)
        assert (list(retention.due(future)), retention.kept_back(future)["not_clean"]) == ([], 1)
        lifecycle.declare_resolved(run.pk, user=ada(), reason=WHY)
        assert ([each.pk for each in retention.due(future)], retention.kept_back(future)["not_clean"]) == ([run.pk], 0)
        append_log(run.pk, [Line(source="engine", text="of a run whose cleanup was declared")])
        assert retention.expire(user=ada(), run=again(run)).log_lines == 1


class TestWhere:
    def test_elsewhere_it_waits_while_a_worker_serves_on_that_host(self) -> None:
        run = failed(host="far")
        Worker.objects.create(name="new", host="far", pid=5, heartbeat_at=timezone.now())
        with pytest.raises(NotDeclarable) as refused:
            declare_resolved(user=ada(), run=run, reason=WHY)
        assert (refused.value.code, again(run).cleanup) == ("cleanup.declare_there", "failed")
        Worker.objects.filter(name="new").update(pid=None)
        declare_resolved(user=ada(), run=run, reason=WHY)
        assert again(run).cleanup == "declared"

    def test_on_the_host_a_lost_journal_may_be_declared_when_nothing_is_found(self, engine: Answering) -> None:
        run = failed(resource="a" * 64)
        declare_resolved(user=ada(), run=run, reason=WHY, look=require_nothing_left)
        assert again(run).cleanup == "declared"

    def test_a_corrupt_journal_too(self, engine: Answering) -> None:
        run = failed()
        journal_of(run).path.write_text("{")
        declare_resolved(user=ada(), run=run, reason=WHY, look=require_nothing_left)
        assert again(run).cleanup == "declared"

    def test_what_is_found_by_its_label_refuses_it(self, engine: Answering) -> None:
        run = failed(resource="a" * 64)
        engine.found["b" * 64] = run.key
        assert refusal_of(run) == "cleanup.still_there"

    def test_a_network_too(self, engine: Answering, monkeypatch: Any) -> None:
        monkeypatch.setattr(engine, "networks", lambda filters: [{"Id": "d" * 64}])
        assert refusal_of(failed(resource="a" * 64)) == "cleanup.still_there"

    def test_what_belongs_to_another_run_does_not(self, engine: Answering) -> None:
        run = failed(resource="a" * 64)
        engine.found["b" * 64] = "0" * 32
        declare_resolved(user=ada(), run=run, reason=WHY, look=require_nothing_left)
        assert again(run).cleanup == "declared"

    def test_an_engine_that_does_not_answer_refuses_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def silent(*_: object) -> None:
            raise EngineError("engine_unreachable", "It cannot be reached.", "")

        monkeypatch.setattr(leftovers, "connect", silent)
        assert refusal_of(failed(resource="a" * 64)) == "cleanup.cannot_look"

    def test_a_cleanup_that_came_out_clean_needs_no_declaration(self, engine: Answering) -> None:
        run = failed()
        journal_of(run)
        assert refusal_of(run, cleanup="clean") == "cleanup.verified"

    def test_a_whole_journal_that_names_something_here_refuses_it(self, engine: Answering, monkeypatch: Any) -> None:
        run = failed()
        unsettled(run, engine, Outcome.UNKNOWN)
        monkeypatch.setattr(leftovers, "retry_cleanup", lambda key: Cleanup.FAILED)
        assert refusal_of(run) == "cleanup.recoverable"

    def test_what_has_other_labels_than_the_journals_does_not(self, engine: Answering, monkeypatch: Any) -> None:
        run = failed()
        unsettled(run, engine, Outcome.FOREIGN)
        monkeypatch.setattr(leftovers, "retry_cleanup", lambda key: Cleanup.FAILED)
        declare_resolved(user=ada(), run=run, reason=WHY, look=require_nothing_left)
        assert again(run).cleanup == "declared"

    def test_on_an_engine_that_was_set_up_anew_it_may_be_declared(self, engine: Answering) -> None:
        run = failed()
        unsettled(run, engine)
        engine.identity = "two"
        declare_resolved(user=ada(), run=run, reason=WHY, look=require_nothing_left)
        assert again(run).cleanup == "declared"

    def test_a_process_that_lives_refuses_it(self, engine: Answering, monkeypatch: Any) -> None:
        run = failed()
        identity = unsettled(run, engine)
        engine.identity = "two"
        monkeypatch.setattr(leftovers, "group_members", lambda found: [1] if found == identity else [])
        assert refusal_of(run) == "cleanup.recoverable"


def refusal_of(run: Run, *, cleanup: str = "failed") -> str:
    with pytest.raises(NotDeclarable) as refused:
        declare_resolved(user=ada(), run=run, reason=WHY, look=require_nothing_left)
    assert again(run).cleanup == cleanup and not AuditEntry.objects.filter(kind="cleanup_declared").exists()
    return refused.value.code


def unsettled(run: Run, engine: Answering, outcome: Outcome = Outcome.UNKNOWN) -> Any:
    """A journal with a container that no attempt can verify, and with a process that is gone."""
    from runs.ownership import ProcessIdentity

    journal = journal_of(run)
    remember_engine(journal.directory, engine)
    identity = ProcessIdentity(4_000_000, 1, 4_000_000, 4_000_000, "00000000-0000-0000-0000-000000000000")
    journal.record_process(identity, trial=1)
    intent = journal.intend(Role.AGENT, trial=1)
    with journal.creating(intent) as slot:
        slot.persist("c" * 64)
    journal.record_outcome(intent.nonce, outcome)
    return identity


class TestShown:
    def test_as_declared_by_a_person_and_never_as_verified(self) -> None:
        run = failed(resource="a" * 64)
        lifecycle.declare_resolved(run.pk, user=ada(), reason=WHY)
        run = again(run)
        situation = Situation(counts=counts_of(run), floor=1.0, left=1, worker="local")
        panel = owned(run, list(run.resources.all()), private=True)
        assert (panel.cleanup.word, panel.retryable, panel.left) == ("declared", False, 1)
        said = "ada declared that nothing of this run is left. It was not verified."
        assert panel.declared == f"{said} Their reason: {WHY}"
        assert WHY not in owned(run, [], private=False).declared
        assert (listed(run).cleanup.word, listed(run).cleanup.icon) == ("declared", "")
        assert "declared complete by a person and never verified" in banner(run, situation).sentence
