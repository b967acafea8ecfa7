"""A database that restarts is waited for; everything else is not."""

from types import SimpleNamespace

import pytest
import tenacity
from django.db import IntegrityError, OperationalError, connection, connections, transaction

from benchsite.lib import database
from benchsite.lib.database import retry_database
from runs.models import Run
from runs.services import lifecycle
from tests.runs.rows import Process, run_row


class Flaky:
    """Fails a number of times before it answers."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise OperationalError("the server closed the connection")
        return Run.objects.count()


@pytest.mark.django_db(transaction=True)
def test_an_act_is_tried_again_on_a_new_connection():
    flaky, pauses = Flaky(3), list[float]()
    assert retry_database(flaky, sleep=pauses.append) == 0
    assert flaky.calls == 4 and len(pauses) == 3


@pytest.mark.django_db(transaction=True)
def test_retrying_ends_with_the_last_error(monkeypatch):
    moments = iter(range(0, 1000, 25))
    monkeypatch.setattr(tenacity, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    flaky = Flaky(1000)
    with pytest.raises(OperationalError, match="closed the connection"):
        retry_database(flaky, for_s=60, sleep=lambda _: None)
    assert flaky.calls == 3


@pytest.mark.django_db(transaction=True)
def test_what_is_inside_a_transaction_is_not_repeated():
    flaky = Flaky(1)
    with pytest.raises(OperationalError), transaction.atomic():
        retry_database(flaky, sleep=lambda _: None)
    assert flaky.calls == 1


@pytest.mark.django_db(transaction=True)
def test_other_errors_are_not_waited_for():
    def refused() -> None:
        raise IntegrityError("no")

    with pytest.raises(IntegrityError):
        retry_database(refused, sleep=lambda _: pytest.fail("it waited"))


def broken_connection() -> None:
    """What a restart of PostgreSQL does to a connection that is kept."""
    other = connections["default"].copy()
    with other.cursor() as killer, connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        killer.execute("SELECT pg_terminate_backend(%s)", cursor.fetchone())
    other.close()


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite has no server to restart")
@pytest.mark.django_db(transaction=True)
class TestRestart:
    def test_a_run_goes_on_after_its_connection_broke(self, monkeypatch):
        run = run_row()
        monkeypatch.setattr(database, "_enabled_for_s", 10.0)
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        broken_connection()
        assert lifecycle.heartbeat(run.pk)
        broken_connection()
        assert lifecycle.enter_stage(run.pk, lifecycle.Stage.GATEWAY)
        assert run.stage_marks.count() == 2

    def test_a_page_does_not_wait(self):
        run = run_row()
        broken_connection()
        with pytest.raises(OperationalError):
            lifecycle.heartbeat(run.pk)
        connections.close_all()
