"""/healthz: what it says, to whom, when something fails, and that nothing can make it wait."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from benchsite import health
from benchsite.lib import bounded
from benchsite.lib.bounded import Question, Unanswered
from tests.runs.conftest import real_queue  # noqa: F401 - a fixture
from tests.runs.rows import worker_row

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    for question in (health.DATABASE, health.REDIS, health.DISK):
        question.forget()
    yield
    for question in (health.DATABASE, health.REDIS, health.DISK):
        question.forget()


@pytest.fixture
def well(real_queue: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Nothing fails, and no bound is reached only because the machine is busy."""
    for question in (health.DATABASE, health.REDIS, health.DISK):
        monkeypatch.setattr(question, "bound_s", 60.0)
    monkeypatch.setattr(health, "_REDIS_TIMEOUT_S", 60.0)
    settings.DISK_LOW_MIB = 0
    worker_row(pid=1, heartbeat_at=timezone.now())


def ask(**options: Any) -> tuple[int, dict[str, Any]]:
    response = Client().get("/healthz", **options)
    assert response["Content-Type"] == "application/json" and response["Cache-Control"] == "no-store"
    return response.status_code, json.loads(response.content)


def failing(error: Exception) -> Any:
    def ask() -> Any:
        raise error

    return ask


def test_a_site_that_is_well_says_so_to_anybody(well):
    assert ask() == (
        200,
        {
            "schema": "benchsite.health/v1",
            "status": "ok",
            "checks": {
                "database": {"status": "ok"},
                "redis": {"status": "ok"},
                "workers": {"status": "ok", "alive": 1, "stale": 0},
                "disk": {"status": "ok"},
            },
        },
    )


@pytest.mark.parametrize("question", [health.DATABASE, health.REDIS], ids=lambda question: question.name)
def test_without_database_or_queue_it_is_503_and_says_nothing_more(well, monkeypatch, caplog, question):
    monkeypatch.setattr(question, "_ask", failing(OperationalError("host=secret-host password=hunter2")))
    with caplog.at_level(logging.WARNING):
        status, document = ask()
    assert (status, document["status"]) == (503, "failing")
    assert document["checks"][question.name] == {"status": "failing"}
    assert "hunter2" not in json.dumps(document) + caplog.text and "OperationalError" in caplog.text


def test_a_queue_that_is_not_there_is_503(well, monkeypatch):
    monkeypatch.setitem(health.settings.RQ_QUEUES["default"], "URL", "unix:///nowhere/redis.sock?db=0")
    assert ask()[0] == 503


def test_a_queue_that_hangs_does_not_hang_the_answer(well, monkeypatch):
    """It accepts connections and never says a word. Nothing is timed: without a bound this test would not end."""
    monkeypatch.setattr(health, "_REDIS_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        monkeypatch.setitem(health.settings.RQ_QUEUES["default"], "URL", url)
        status, document = ask()
    assert (status, document["checks"]["redis"]) == (503, {"status": "failing"})


def test_a_database_driver_that_hangs_does_not_hang_the_answer(well, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(health.DATABASE, "_ask", lambda: ended.wait(60))
    monkeypatch.setattr(health.DATABASE, "bound_s", 0.05)
    try:
        assert ask()[0] == ask()[0] == 503
    finally:
        ended.set()


@pytest.mark.parametrize(
    ("age", "found"),
    [
        (timedelta(seconds=60), {"status": "degraded", "alive": 0, "stale": 1}),
        (None, {"status": "degraded", "alive": 0, "stale": 0}),
    ],
)
def test_a_worker_that_does_not_beat_is_degraded_and_200(well, age, found):
    worker_row().delete()
    worker_row(pid=1, heartbeat_at=None if age is None else timezone.now() - age)
    status, document = ask()
    assert (status, document["status"], document["checks"]["workers"]) == (200, "degraded", found)


def test_a_silent_worker_beside_one_that_is_alive_is_degraded_unless_it_was_declared_lost(well):
    silent = worker_row("other", pid=1, heartbeat_at=timezone.now() - timedelta(hours=1))
    assert ask()[1]["checks"]["workers"] == {"status": "degraded", "alive": 1, "stale": 1}
    type(silent).objects.filter(pk=silent.pk).update(lost_declared_at=timezone.now())
    health.DATABASE.forget()
    assert ask()[1]["status"] == "ok"


def test_a_worker_that_was_stopped_on_purpose_is_no_fault_of_the_others(well):
    worker_row("other", heartbeat_at=timezone.now() - timedelta(days=1))
    assert ask()[1]["checks"]["workers"] == {"status": "ok", "alive": 1, "stale": 0}


def test_a_full_disk_is_degraded_and_200(well, settings):
    settings.DISK_LOW_MIB = 2**40
    status, document = ask()
    assert (status, document["status"], document["checks"]["disk"]) == (200, "degraded", {"status": "degraded"})


def test_no_name_and_no_place_is_told(well, settings):
    worker_row("secret-name", pid=1, heartbeat_at=timezone.now(), host="secret-host")
    text = json.dumps(ask()[1])
    assert (
        "secret" not in text and str(settings.DATA) not in text and "/" not in text.replace("benchsite.health/v1", "")
    )


def test_it_needs_no_session_and_takes_no_form(well):
    assert Client().post("/healthz").status_code == 405
    assert Client().head("/healthz").status_code == 200


def test_production_answers_it_without_https(well, settings):
    settings.SECURE_SSL_REDIRECT = True
    assert ask()[0] == 200
    assert Client().get("/sign-in/").status_code == 301


# -- questions --------------------------------------------------------------------------------------------


def test_many_who_ask_at_once_share_one_thread_and_its_answer(monkeypatch):
    monkeypatch.setattr(bounded, "FRESH_FOR_S", 60.0)  # also for one who comes late on a busy machine
    asked, go = [], threading.Event()

    def ask() -> str:
        asked.append(threading.current_thread())
        go.wait(60)
        return "yes"

    question = Question("q", ask, bound_s=60)
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(question.answer())) for _ in range(8)]
    question.begin()
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert answers == ["yes"] * 8 and len(asked) == 1


def test_a_question_that_hangs_is_not_asked_again_beside_itself():
    asked, go = [], threading.Event()
    began = threading.Event()
    question = Question("q", lambda: (asked.append(1), began.set(), go.wait(20)), bound_s=0.01)
    question.begin()
    assert began.wait(20)
    for _ in range(3):
        with pytest.raises(Unanswered, match=r"within 0\.01 s"):
            question.answer()
    go.set()
    assert len(asked) == 1


def test_an_answer_that_is_no_longer_fresh_is_asked_again(monkeypatch):
    monkeypatch.setattr(bounded, "FRESH_FOR_S", -1.0)
    numbers = iter(range(9))
    question = Question("q", lambda: next(numbers), bound_s=20)
    assert [question.answer(), question.answer()] == [0, 1]
