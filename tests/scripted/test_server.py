"""The scripted endpoint over HTTP: a key like a real one, many modes, and no doubt about what it is."""

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runs.checks.readiness import question
from runs.images.gateway.model_gateway.completion import judge
from runs.scripted.scripts import FAILING_AT_ONCE, Mode
from runs.scripted.server import LABEL, Answer, ScriptedServer, answer_to

KEY = "a-key-of-the-endpoint"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("127.0.0.1", 0, KEY, slow_s=0.3) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def ask(
    server: ScriptedServer,
    body: Any = None,
    *,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    key: str = KEY,
) -> tuple[int, dict[str, str], Any]:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        link.request(method, path, json.dumps(body), {"Authorization": f"Bearer {key}"} if key else {})
        answer = link.getresponse()
        return answer.status, dict(answer.getheaders()), json.loads(answer.read())
    finally:
        link.close()


def chat(mode: str, spoken: int = 0) -> dict[str, Any]:
    messages = [{"role": "user", "content": "the file is /app/ledger.csv"}]
    return {"model": f"scripted-{mode}", "messages": messages + [{"role": "assistant", "content": "a"}] * spoken}


@pytest.mark.parametrize("mode", ["positive", "negative", "forge", "slow", "late-failure"])
def test_an_answer_is_a_completion_that_says_it_is_scripted(server: ScriptedServer, mode: str) -> None:
    status, headers, body = ask(server, chat(mode))
    assert status == 200 and headers["X-Scripted-Endpoint"] == LABEL and body["system_fingerprint"] == LABEL
    assert body["model"] == f"scripted-{mode}"
    [call] = body["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"])["command"] == "head -n 20 /app/ledger.csv"
    assert body["usage"]["prompt_tokens"] > 0


QUESTION = question("unused", 16, {})["messages"]


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode not in FAILING_AT_ONCE])
def test_every_mode_but_those_that_fail_at_once_says_that_it_is_ready(mode: Mode) -> None:
    answer = answer_to({"model": f"scripted-{mode}", "messages": QUESTION})
    assert (answer.status, answer.body["model"], answer.delay_s) == (200, f"scripted-{mode}", 0)
    assert answer.body["choices"][0]["message"] == {"role": "assistant", "content": "ready"}


@pytest.mark.parametrize("mode", sorted(FAILING_AT_ONCE))
def test_a_mode_that_fails_at_once_answers_readiness_and_trials_alike(mode: Mode) -> None:
    ready, trial = (answer_to({**chat(mode), **changes}) for changes in ({"messages": QUESTION}, {}))
    late = answer_to(chat(mode.removesuffix("-at-once")))
    assert ready.status == trial.status == late.status
    assert ready.body.get("model") == trial.body.get("model") == late.body.get("model")


@pytest.mark.parametrize(("mode", "status"), [("unauthorized", 401), ("unavailable", 503), ("malformed", 200)])
def test_a_failing_mode_gives_no_completion(server: ScriptedServer, mode: str, status: int) -> None:
    seen, _, body = ask(server, chat(mode))
    assert seen == status and "choices" not in body and LABEL in json.dumps(body)


def test_wrong_model_answers_well_in_another_name(server: ScriptedServer) -> None:
    status, _, body = ask(server, chat("wrong-model"))
    assert status == 200 and body["choices"] and body["model"] == "some-other-model"


def test_late_failure_fails_after_two_good_answers() -> None:
    assert [answer_to(chat("late-failure", spoken)).status for spoken in range(4)] == [200, 200, 503, 503]


def test_slow_is_late_and_hang_is_very_late() -> None:
    assert answer_to(chat("slow"), slow_s=7.0).delay_s == 7.0
    assert answer_to(chat("hang")).delay_s >= 3600
    assert answer_to(chat("positive")).delay_s == 0


def test_a_held_answer_is_let_go_when_the_asker_hangs_up(server: ScriptedServer) -> None:
    link = http.client.HTTPConnection("127.0.0.1", server.port)
    asked, answering, answer = threading.Event(), list[threading.Thread](), server.answer

    def noted(request: dict[str, Any]) -> Answer:
        answering.append(threading.current_thread())
        asked.set()
        return answer(request)

    server.answer = noted
    link.request("POST", "/v1/chat/completions", json.dumps(chat("hang")), {"Authorization": f"Bearer {KEY}"})
    assert asked.wait(60)
    link.close()
    answering[0].join(60)
    assert not answering[0].is_alive()


@pytest.mark.parametrize("key", ["", "wrong", KEY + "x", KEY.upper()])
def test_without_the_right_key_nothing_is_answered(server: ScriptedServer, key: str) -> None:
    assert ask(server, chat("positive"), key=key)[0] == 401
    assert ask(server, method="GET", path="/v1/models", key=key)[0] == 401


def test_the_models_list_names_every_mode(server: ScriptedServer) -> None:
    _, _, body = ask(server, method="GET", path="/v1/models")
    assert [model["id"] for model in body["data"]] == [f"scripted-{mode}" for mode in Mode]


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        (chat("positive"), "/v1/other", 404),
        ({"model": "gpt", "messages": []}, "/v1/chat/completions", 404),
        ({"model": "scripted-positive"}, "/v1/chat/completions", 400),
        ({"model": "scripted-positive", "messages": ["x"]}, "/v1/chat/completions", 400),
        ([], "/v1/chat/completions", 400),
    ],
)
def test_what_it_does_not_know_it_refuses(server: ScriptedServer, body: Any, path: str, status: int) -> None:
    assert ask(server, body, path=path)[0] == status


def form(mode: str, **changes: Any) -> Any:
    """The first choice of a mode's first answer, as the server would send it."""
    answer = answer_to({**chat(mode), **changes})
    return json.loads(answer.dressed(json.dumps(answer.body).encode()))["choices"][0]


def test_forms_of_real_endpoints_are_played_over_the_solving_script() -> None:
    plain = form("positive")["message"]
    assert form("empty-id")["message"]["tool_calls"][0]["id"] == ""
    assert form("in-parts")["message"]["content"][1] == {"type": "text", "text": plain["content"]}
    assert form("odd-name")["message"]["tool_calls"][0]["function"]["name"] == "bash<|channel|>commentary"
    for mode, reason, other in (
        ("reasoning-cut", "length", "reasoning_content"),
        ("refusing", "content_filter", "refusal"),
    ):
        choice = form(mode)
        assert choice["finish_reason"] == reason and choice["message"]["content"] is None and choice["message"][other]
    assert answer_to(chat("no-usage")).body["usage"] is None
    assert answer_to(chat("dated-name")).body["model"] == "scripted-dated-name-2026-08-07"


def test_an_odd_name_becomes_right_after_the_agent_complained_twice() -> None:
    told = chat("odd-name")["messages"] + [{"role": "user", "content": "Unknown tool"}] * 2
    assert form("odd-name", messages=told)["message"]["tool_calls"][0]["function"]["name"] == "bash"


def test_a_signed_answer_wants_its_signatures_back() -> None:
    first = form("signed")["message"]
    asked = chat("signed")["messages"]
    assert answer_to({**chat("signed"), "messages": [*asked, first]}).status == 200
    for lost in ("tool_calls", "reasoning_details"):
        without = {name: value for name, value in first.items() if name != lost}
        assert answer_to({**chat("signed"), "messages": [*asked, without]}).status == 400


def test_the_context_overflows_after_the_work_is_done() -> None:
    answers = [answer_to(chat("context-overflow", spoken)) for spoken in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 400]
    assert answers[-1].body["error"]["code"] == "context_length_exceeded"


def test_a_rate_limit_is_said_outside_with_its_seconds_or_inside(server: ScriptedServer) -> None:
    status, headers, _ = ask(server, chat("rate-limited"))
    assert (status, headers["Retry-After"]) == (429, "7")
    status, _, body = ask(server, chat("rate-limited-inside"))
    assert (status, body["error"]["code"]) == (200, 429)


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("banner", "text_before_json"), ("html", "html"), ("empty", "empty"), ("cut-off", "cut"),
        ("event-stream", "event_stream_cut"), ("compressed", "compressed"),
    ],
)  # fmt: skip
def test_what_is_no_completion_is_so_in_its_own_way(mode: str, code: str) -> None:
    answer = answer_to(chat(mode))
    judged = judge(answer.dressed(json.dumps(answer.body).encode()), frozenset({f"scripted-{mode}"}))
    assert (judged.kind, judged.code) == ("malformed", code)
