"""A connection test is asked for once, made by its worker, and its row says what came of it or why nothing did."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from redis.exceptions import ConnectionError as NoRedis

from benchsite.lib.serializing import Exit
from runs.checks.check import Check
from runs.checks.readiness import Answer, judge
from runs.documents.credentials import evidence_check
from runs.models import AuditEntry, EndpointTest, Worker
from runs.models.endpoint_tests import WAITS_AT_MOST
from runs.services import endpoint_testing, queue, registry
from runs.services.endpoint_testing import CannotTest, claim, finish, last_result, last_tests, not_made, request_test
from runs.services.previewing import make_preview
from tests.commands.calling import command
from tests.runs.rows import person, worker_row
from tests.runs.sites import RECORD, Site, ready_site

pytestmark = pytest.mark.django_db

READY = judge(Answer("ok", None, 200), has_credential=True)
REFUSED = judge(Answer("upstream_error", "status", 401), has_credential=True)
SLOW = judge(Answer("refused", "client_gone"), has_credential=True)


@pytest.fixture
def put(monkeypatch) -> list[Any]:
    jobs: list[Any] = []
    monkeypatch.setattr(queue, "put_endpoint_test", lambda test_id, worker: jobs.append((test_id, worker)))
    return jobs


@pytest.fixture
def site(put) -> Site:
    return ready_site()


@pytest.fixture
def asked(site, django_capture_on_commit_callbacks) -> EndpointTest:
    with django_capture_on_commit_callbacks(execute=True):
        test, new = request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
    assert new
    return test


def again(test: EndpointTest) -> EndpointTest:
    return EndpointTest.objects.get(pk=test.pk)


def late(test: EndpointTest) -> None:
    long_ago = timezone.now() - WAITS_AT_MOST - timedelta(seconds=1)
    EndpointTest.objects.filter(pk=test.pk).update(requested_at=long_ago)


def test_asking_puts_one_job_with_nothing_but_the_id_and_is_audited(asked, put):
    assert put == [(asked.pk, "local")]
    entry = AuditEntry.objects.get(kind="endpoint_test")
    assert (entry.actor_name, entry.subject, entry.detail["worker"]) == ("olga", "scripted", "local")


def test_nothing_is_put_before_the_row_is_committed(site, put):
    request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
    assert put == []


def test_asking_again_while_one_is_open_gives_the_same_and_puts_nothing(
    site, asked, put, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        test, new = request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
    assert (test.pk, new, len(put)) == (asked.pk, False, 1)
    assert AuditEntry.objects.filter(kind="endpoint_test").count() == 1


@pytest.mark.parametrize(("roles", "allowed"), [(("operator",), True), (("admin",), True), (("viewer",), False),
                                                (("reviewer",), False), ((), False)])  # fmt: skip
def test_operators_and_those_who_register_endpoints_may_ask(site, roles, allowed):
    user = person("somebody", *roles)
    if allowed:
        assert request_test(user=user, endpoint=site.endpoint, worker=site.worker)[1]
    else:
        with pytest.raises(PermissionDenied):
            request_test(user=user, endpoint=site.endpoint, worker=site.worker)
        assert not EndpointTest.objects.exists()


def test_a_replaced_version_and_a_lost_worker_are_refused(site):
    registry.register_endpoint({**RECORD, "model": "other"}, user=None)
    site.endpoint.refresh_from_db()
    with pytest.raises(CannotTest, match="Test the version that is in use"):
        request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
    current = registry.find_endpoint("scripted")
    Worker.objects.update(lost_declared_at=timezone.now())
    with pytest.raises(CannotTest, match="declared lost"):
        request_test(user=site.operator, endpoint=current, worker=Worker.objects.get())


def test_a_queue_that_cannot_be_reached_is_said(site, monkeypatch, django_capture_on_commit_callbacks):
    def no_redis(*_: Any) -> None:
        raise NoRedis

    monkeypatch.setattr(queue, "put_endpoint_test", no_redis)
    with django_capture_on_commit_callbacks(execute=True):
        test, _ = request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
    assert (again(test).outcome, again(test).failure_code) == ("not_made", "endpoint_test.no_queue")


class TestMaking:
    def test_its_worker_takes_it_once(self, asked):
        assert claim(asked.pk.hex, worker="another") is None
        assert claim(asked.pk.hex, worker="local").pk == asked.pk
        assert claim(asked.pk.hex, worker="local") is None

    def test_one_that_waited_too_long_is_not_made_any_more(self, asked):
        late(asked)
        assert claim(asked.pk.hex, worker="local") is None
        assert again(asked).overdue and not again(asked).live

    def test_asking_again_closes_one_that_waited_too_long(self, site, asked):
        late(asked)
        test, new = request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
        assert new and test.pk != asked.pk
        assert (again(asked).outcome, again(asked).failure_code) == ("not_made", "endpoint_test.not_taken_up")

    @pytest.mark.parametrize(("checks", "outcome"), [(READY, "ready"), (REFUSED, "not_ready"), (SLOW, "unproved"),
                                                     ([], "unproved")])  # fmt: skip
    def test_the_outcome_follows_from_the_checks(self, asked, checks: list[Check], outcome):
        assert finish(claim(asked.pk.hex, worker="local"), checks, seconds=0.2)
        done = again(asked)
        assert (done.outcome, done.seconds, done.live) == (outcome, 0.2, False)
        assert [check["code"] for check in done.checks] == [check.code for check in checks]

    def test_a_result_is_written_once(self, asked):
        assert not_made(asked.pk, "engine_timeout", "The engine did not answer.")
        assert not finish(asked, READY, seconds=0.1)
        assert again(asked).outcome == "not_made"


class TestLast:
    def test_the_newest_of_each_worker_is_shown(self, site, asked):
        other = worker_row("another")
        for worker in (other, other):
            test, _ = request_test(user=site.operator, endpoint=site.endpoint, worker=worker)
            finish(test, READY, seconds=0.1)
        shown = last_tests(site.endpoint)
        assert [(row.worker.name, row.pk) for row in shown] == [("another", test.pk), ("local", asked.pk)]

    def test_one_that_was_not_made_is_no_result(self, site, asked):
        not_made(asked.pk, "engine_timeout", "The engine did not answer.")
        assert last_result(site.endpoint, site.worker) is None

    def test_a_preview_shows_the_last_one_from_its_worker_as_a_note(self, site, asked):
        assert all(check["name"] != "endpoint last test" for check in make_preview(**site.choice()).checks)
        finish(asked, REFUSED, seconds=0.1)
        EndpointTest.objects.update(ended_at=timezone.now() - timedelta(minutes=3))
        preview = make_preview(**site.choice())
        (note,) = [check for check in preview.notes if check["name"] == "endpoint last test"]
        assert note["code"] == "endpoint.auth_refused" and preview.blocking == []
        assert note["detail"].startswith("3 min ago, from local: The endpoint refused the credential")

    def test_a_preview_says_that_it_was_ready(self, site, asked):
        finish(asked, READY, seconds=0.1)
        (held,) = [one for one in make_preview(**site.choice()).checks if one["name"] == "endpoint last test"]
        assert held["passed"] and held["detail"].endswith("from local: it was ready.")

    def test_a_preview_says_that_evidence_cannot_be_searched_for_the_key(self, site, asked):
        finish(asked, [*READY, evidence_check("ollama")], seconds=0.1)
        assert again(asked).outcome == "ready"
        preview = make_preview(**site.choice())
        (note,) = [check for check in preview.notes if check["name"] == "credential in evidence"]
        assert note["code"] == "credential.not_searched" and note["remedy"] and preview.blocking == []
        (held,) = [check for check in preview.checks if check["name"] == "endpoint last test"]
        assert held["passed"]

    def test_another_version_of_the_endpoint_was_never_tested(self, site, asked):
        finish(asked, READY, seconds=0.1)
        newer = registry.register_endpoint({**RECORD, "model": "other"}, user=None)
        checks = make_preview(**site.choice(endpoint=newer)).checks
        assert all(check["name"] != "endpoint last test" for check in checks)


class TestCommand:
    def test_the_list_has_the_active_ones_and_no_credential(self, site):
        done = command("endpoint", "list", "--json")
        (one,) = done.json["endpoints"]
        assert (done.code, one["name"], one["model"]) == (0, "scripted", "scripted")
        assert "credential" not in str(done.json)

    def test_show_has_the_last_tests(self, site, asked):
        finish(asked, REFUSED, seconds=0.1)
        done = command("endpoint", "show", "scripted")
        assert done.code == 0 and "not ready" in done.out and "endpoint.auth_refused" in done.out

    def test_a_test_is_asked_for_and_told(self, site):
        done = command("endpoint", "test", "scripted", "--json")
        assert (done.code, done.json["state"], done.json["outcome"]) == (0, "waiting", None)

    @pytest.mark.parametrize(("checks", "code"), [(READY, Exit.DONE), (REFUSED, Exit.FAILED), (SLOW, Exit.ERROR)])
    def test_the_exit_code_says_whether_it_is_ready(self, site, monkeypatch, checks, code):
        def made_at_once(**asked: Any) -> tuple[EndpointTest, bool]:
            test, new = request_test(**asked)
            finish(test, checks, seconds=0.1)
            return again(test), new

        monkeypatch.setattr(endpoint_testing, "request_test", made_at_once)
        assert command("endpoint", "test", "scripted", "--wait").code == code

    def test_an_unknown_endpoint_and_a_missing_name_are_told(self, site):
        unknown, missing = command("endpoint", "test", "nonesuch"), command("endpoint", "show")
        assert (unknown.code, missing.code) == (2, 2)
        assert "nonesuch" in unknown.err and "manage.py endpoint list" in missing.err


def test_a_test_whose_maker_is_gone_says_so_and_may_be_asked_for_again(site, asked, django_capture_on_commit_callbacks):
    assert claim(asked.pk.hex, worker="local") is not None
    assert not endpoint_testing.close_lost("another") and endpoint_testing.close_lost("local")
    test = again(asked)
    assert (test.state, test.outcome, test.failure_code) == ("done", "not_made", "endpoint_test.interrupted")
    assert not finish(test, READY, seconds=1.0)
    with django_capture_on_commit_callbacks(execute=True):
        assert request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)[1]


def test_a_test_that_still_waits_is_not_closed_with_those_that_were_being_made(asked):
    assert not endpoint_testing.close_lost("local") and not again(asked).done


@pytest.fixture
def jobs(monkeypatch) -> set[str]:
    """The ids in the worker's queue."""
    found: set[str] = set()
    monkeypatch.setattr(queue, "queue_of", lambda worker: SimpleNamespace(get_job_ids=lambda: sorted(found)))
    return found


def test_a_test_whose_job_was_lost_is_put_again(asked, put, jobs):
    assert endpoint_testing.put_missing("another") == []
    assert endpoint_testing.put_missing("local") == [asked.pk]
    assert put == [(asked.pk, "local")] * 2


def test_a_test_whose_job_waits_or_runs_or_that_is_overdue_is_not_put_again(asked, put, jobs):
    job = queue.endpoint_test_job_id(asked.pk)
    assert endpoint_testing.put_missing("local", running=job) == []
    jobs.add(job)
    assert endpoint_testing.put_missing("local") == []
    jobs.clear()
    late(asked)
    assert endpoint_testing.put_missing("local") == [] and len(put) == 1
