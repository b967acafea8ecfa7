"""Lines of the log: JSON with request, run and job, readable on a terminal, and never a secret."""

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import get_resolver
from structlog.contextvars import clear_contextvars, get_contextvars

from benchsite.lib import environ, logs
from benchsite.requests import RequestIdMiddleware, request_id_of
from runs.engine import worker as serving
from runs.engine.ending.conclusion import Secrets

SENTINEL = 'sentinel-"quoted"/secret+value'


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch):
    clear_contextvars()
    monkeypatch.setattr(logs, "_hidden", logs.Hidden())
    yield
    clear_contextvars()


def line(form: logs.Format, message: str, *arguments: object, error: BaseException | None = None, **extra: Any) -> str:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.getLogger("runs.test").makeRecord(
        "runs.test", logging.WARNING, "file.py", 1, message, arguments, info, extra=extra
    )
    return logs.formatter(form).format(record)


def raised() -> Exception:
    local_value = SENTINEL  # a traceback with local variables would show it
    try:
        raise ValueError(f"refused {len(local_value)}")
    except ValueError as error:
        return error


def test_a_line_is_one_json_object_with_request_run_and_job():
    with logs.about(request_id="r" * 8, run="ab" * 16, job="run-" + "ab" * 16):
        text = line("json", "it went %s", "well\nor not", status_code=404, request=object())
    document = json.loads(text)
    assert "\n" not in text
    stamp = document.pop("timestamp")
    assert stamp.endswith("Z")
    assert document == {
        "event": "it went well\nor not",
        "job": "run-" + "ab" * 16,
        "level": "warning",
        "logger": "runs.test",
        "request_id": "r" * 8,
        "run": "ab" * 16,
        "status_code": 404,
    }


def test_what_is_bound_ends_with_its_context():
    with logs.about(run="ab" * 16):
        pass
    assert "run" not in json.loads(line("json", "later"))


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_is_there_without_local_variables(form):
    text = line(form, "failed", error=raised())
    assert "refused" in text and "raised" in text
    assert "sentinel" not in text


def test_nothing_steers_a_terminal_or_forges_a_line():
    text = line("console", "said \x1b[31mred\n2026-11-29T00:00:00Z [error] forged")
    assert "\x1b" not in text
    assert not any(part.startswith("2026-11-29") for part in text.splitlines()[1:])


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_known_secret_is_never_written(form):
    Secrets().add(SENTINEL, None)  # what the worker does with a run's credential and its trials' tokens
    error = RuntimeError(f"401 for {SENTINEL}")
    text = line(form, "asked with %s and %r", SENTINEL, {"key": SENTINEL}, error=error)
    assert "sentinel" not in text
    assert text.count("[REDACTED]") == 3


def test_a_secret_that_nobody_named_would_have_been_written():
    assert "sentinel" in line("json", "asked with %s", SENTINEL)


def test_the_password_of_a_url_is_a_secret():
    assert logs.secrets_of_url("redis://:pa%2Fss-word@host:1/0") == ["pa%2Fss-word", "pa/ss-word"]
    assert logs.secrets_of_url("unix:///run/redis.sock?db=0&password=pa%2Fss-word") == ["pa/ss-word"]
    assert logs.secrets_of_url("redis://host:1/0") == logs.secrets_of_url("http://[") == []


def test_the_settings_log_through_this_formatter_to_stderr(settings):
    [handler] = settings.LOGGING["handlers"].values()
    assert handler["class"] == "logging.StreamHandler" and "stream" not in handler
    assert settings.LOGGING["formatters"][handler["formatter"]]["()"] is logs.formatter


def test_auto_is_json_unless_a_person_looks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert not line("auto", "hello").startswith("{")
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert json.loads(line("auto", "hello"))["event"] == "hello"


def test_an_unknown_format_fails_loudly(monkeypatch):
    monkeypatch.setenv("BENCHSITE_LOG_FORMAT", "xml")
    with pytest.raises(ImproperlyConfigured, match="auto, json, console"):
        environ.choice("BENCHSITE_LOG_FORMAT", "auto", logs.FORMATS)


# -- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["abcdefgh", "0b5c2f.9-a_Z", "x" * 64])
def test_a_safe_request_id_is_taken_over(given):
    assert request_id_of(RequestFactory().get("/", headers={"X-Request-ID": given})) == given


@pytest.mark.parametrize(
    "given", ["", "short", "x" * 65, "a b c d e", "abcdefgh\n", "<script>alert", "日本語日本語日本", "-leading1"]
)
def test_any_other_request_id_is_replaced(given):
    made = request_id_of(SimpleNamespace(headers={"X-Request-ID": given}))
    assert made != given and len(made) == 32


@pytest.mark.django_db
def test_the_answer_carries_the_id_and_nothing_stays_bound():
    response = Client().get("/sign-in/", headers={"X-Request-ID": "proxy-0001"})
    assert response["X-Request-ID"] == "proxy-0001"
    assert get_contextvars() == {}


@pytest.mark.parametrize(
    ("path", "run"),
    [
        (f"/runs/{'ab' * 16}/", "ab" * 16),
        (f"/runs/{'ab' * 16}/trials/1/", "ab" * 16),
        (f"/runs/previews/{'ab' * 16}/", None),
        ("/runs/", None),
    ],
)
def test_the_run_that_an_address_names_is_bound(path, run):
    request = RequestFactory().get(path, headers={"X-Request-ID": "proxy-0001"})
    seen: dict[str, Any] = {}

    def respond(request):
        request.resolver_match = get_resolver().resolve(request.path)
        middleware.process_view(request, respond, (), request.resolver_match.kwargs)
        seen.clear()
        seen.update(get_contextvars())
        return HttpResponse()

    middleware = RequestIdMiddleware(respond)
    middleware(request)
    assert seen == {"request_id": "proxy-0001", **({"run": run} if run else {})}
    middleware(RequestFactory().get("/runs/", headers={"X-Request-ID": "proxy-0002"}))
    assert seen["request_id"] == "proxy-0002" and "run" not in get_contextvars()


def test_djangos_own_line_about_a_refused_request_names_it(client):
    """It is written after all middleware has returned."""
    lines: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(logs.formatter("json").format(record)))  # type: ignore[method-assign]
    logging.getLogger("django.request").addHandler(handler)
    try:
        client.get("/healthz/nowhere", headers={"X-Request-ID": "proxy-0001"})
    finally:
        logging.getLogger("django.request").removeHandler(handler)
    [line] = lines
    assert (line["status_code"], line["request_id"]) == (404, "proxy-0001")
    assert get_contextvars() == {}


# -- the worker -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["run", "cleanup"])
def test_every_line_of_a_job_names_it_and_its_run(monkeypatch, kind):
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(serving.RqWorker, "execute_job", lambda self, job, queue: seen.append(get_contextvars()))
    monkeypatch.setattr(serving.recovery, "recover_run", lambda run: seen.append(get_contextvars()))
    monkeypatch.setattr(serving.endpoint_testing, "close_lost", lambda worker: seen.append(get_contextvars()))
    monkeypatch.setattr(serving.connections, "close_all", lambda: None)
    job = SimpleNamespace(id=f"{kind}-{'ab' * 16}")
    object.__new__(serving.HostWorker).execute_job(job, None)
    assert seen and all(names == {"job": job.id, "run": "ab" * 16} for names in seen)
    assert get_contextvars() == {}


# -- the queue's dashboard --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/django-rq/", "/django_rq/", "/rq/", "/admin/django_rq/", "/admin/django_rq/dashboard/"]
)
def test_the_queues_own_dashboard_is_not_there(path, admin_client):
    assert admin_client.get(path).status_code == 404


def test_no_address_leads_into_the_queues_package():
    def views(patterns: Any) -> Any:
        for pattern in patterns:
            yield from views(pattern.url_patterns) if hasattr(pattern, "url_patterns") else [pattern.callback]

    modules = {getattr(view, "__module__", "") for view in views(get_resolver().url_patterns)}
    assert "runs.web.views.run_page" in modules
    assert not any(module.startswith("django_rq") for module in modules)
