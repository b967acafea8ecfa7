"""What one answer proves of an endpoint: each way in which it is not ready has its own code and remedy."""

import pytest

from runs.checks.check import Check
from runs.checks.readiness import (
    ANSWER,
    CODES,
    CREDENTIAL,
    MODEL,
    PROMPT,
    REACHED,
    Answer,
    failure_class,
    is_question,
    judge,
    question,
)  # fmt: skip
from tests.gateway import bodies


def upstream(code: str, status: int | None = None, error: str = "") -> Answer:
    return Answer("upstream_error", code, status, error)


VLLM = '{"message":"the model `small` does not exist.","type":"notfounderror"}'
HTML = "<h1>not found</h1>"
CASES = [
    (None, REACHED, "endpoint.not_asked", "worker_runtime"),
    (upstream("address_refused"), REACHED, "endpoint.address_refused", "routing"),
    (Answer("refused", "token", 401), REACHED, "endpoint.not_asked", "worker_runtime"),
    (Answer("refused", "steps_used_up", 404), REACHED, "endpoint.not_asked", "worker_runtime"),
    (upstream("unreachable"), REACHED, "endpoint.unreachable", "routing"),
    (upstream("tls"), REACHED, "endpoint.tls_failed", "routing"),
    (upstream("status", 302), REACHED, "endpoint.redirected", "routing"),
    (upstream("status", 308), REACHED, "endpoint.redirected", "routing"),
    (upstream("status", 401), CREDENTIAL, "endpoint.auth_refused", "authentication"),
    (upstream("status", 403), CREDENTIAL, "endpoint.auth_refused", "authentication"),
    (upstream("status", 404, HTML), ANSWER, "endpoint.path_not_found", "routing"),
    (upstream("status", 404, VLLM), MODEL, "endpoint.model_absent", "routing"),
    (
        upstream("status", 404, 'model "small" not found, try pulling it first'),
        MODEL,
        "endpoint.model_absent",
        "routing",
    ),
    (upstream("status", 404, "no such path (this is no model)"), ANSWER, "endpoint.path_not_found", "routing"),
    (
        upstream("status", 400, "'max_tokens' is not supported with this model"),
        ANSWER,
        "endpoint.request_refused",
        "serving_runtime",
    ),
    (upstream("status", 400, '{"code":"model_not_found"}'), MODEL, "endpoint.model_absent", "routing"),
    (upstream("status", 400, "max_tokens is not known"), ANSWER, "endpoint.request_refused", "serving_runtime"),
    (upstream("status", 422), ANSWER, "endpoint.request_refused", "serving_runtime"),
    (upstream("status", 429), ANSWER, "endpoint.rate_limited", "serving_runtime"),
    (upstream("status", 500), ANSWER, "endpoint.not_ready", "serving_runtime"),
    (upstream("status", 503), ANSWER, "endpoint.not_ready", "serving_runtime"),
    (upstream("protocol"), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("too_large"), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("bad_encoding"), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("compressed"), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("cut"), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("not_http"), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("error_in_success", 429), ANSWER, "endpoint.rate_limited", "serving_runtime"),
    (upstream("error_in_success"), ANSWER, "endpoint.not_ready", "serving_runtime"),
    (upstream("context_window", 400), ANSWER, "endpoint.request_refused", "serving_runtime"),
    (Answer("malformed", "html", 200), ANSWER, "endpoint.wrong_content", "serving_runtime"),
    (upstream("credential_echoed", 200), ANSWER, "endpoint.credential_echoed", "serving_runtime"),
    (Answer("wrong_model", None, 200), MODEL, "endpoint.wrong_model", "routing"),
]
SLOW = [Answer("refused", "client_gone"), upstream("timeout")]


def failed(answer: Answer | None) -> list[Check]:
    return [check for check in judge(answer, has_credential=True) if not check.passed]


def test_a_completion_by_the_declared_model_proves_everything():
    checks = judge(Answer("ok", None, 200), has_credential=True)
    assert [(check.name, check.code) for check in checks if check.passed] == [
        (REACHED, "endpoint.reachable"), (CREDENTIAL, "endpoint.authenticated"), (ANSWER, "endpoint.answered"),
        (MODEL, "endpoint.model_present"),
    ]  # fmt: skip


@pytest.mark.parametrize(("answer", "name", "code", "klass"), CASES)
def test_each_failure_is_one_required_check_with_its_code_remedy_and_class(answer, name, code, klass):
    (refusal,) = [check for check in failed(answer) if check.required]
    assert (refusal.name, refusal.code, failure_class(refusal.code)) == (name, code, klass)
    assert refusal.detail.endswith(".") and refusal.remedy.endswith(".") and "{" not in refusal.detail


@pytest.mark.parametrize("answer", [case[0] for case in CASES] + SLOW)
def test_what_could_not_be_proved_is_said_and_refuses_nothing_by_itself(answer):
    checks = judge(answer, has_credential=True)
    assert [check.name for check in checks] == [REACHED, CREDENTIAL, ANSWER, MODEL]
    own = next(check for check in checks if not check.passed and check.code in CODES)
    others = [check for check in checks if not check.passed and check is not own]
    assert {check.level for check in others} <= {"note"}
    assert all(check.code.endswith(("_not_proved", "model_not_listed")) for check in others)


@pytest.mark.parametrize("answer", SLOW)
def test_an_answer_that_did_not_come_in_time_proves_nothing_and_refuses_nothing(answer):
    assert {check.code for check in failed(answer)} >= {"endpoint.slow", "endpoint.model_not_listed"}
    assert not any(check.refuses for check in failed(answer))


def test_a_code_for_every_way_is_reached_by_some_answer():
    assert {case[2] for case in CASES} | {"endpoint.slow"} == set(CODES)


def test_an_endpoint_without_a_credential_is_told_apart():
    said = {check.name: check for check in judge(Answer("ok", None, 200), has_credential=False)}
    assert said[CREDENTIAL].passed and "asked for none" in said[CREDENTIAL].detail
    refused = {check.name: check for check in judge(upstream("status", 401), has_credential=False)}
    assert "asks for a credential" in refused[CREDENTIAL].detail


def test_what_the_endpoint_said_is_never_shown():
    for check in judge(upstream("status", 404, "the model sk-secret does not exist"), has_credential=True):
        assert "sk-secret" not in check.sentence


def test_the_question_is_recognised_and_nothing_else_is():
    messages = question("small", 16, {})["messages"]
    assert is_question(messages)
    assert (
        not is_question([*messages, *messages]) and not is_question([]) and not is_question([{"content": PROMPT[1:]}])
    )


def test_the_question_has_the_very_fields_that_the_agent_sends():
    first = bodies.request(temperature=0.5)
    first["messages"] = first["messages"][:2]
    asked = question(bodies.ALIAS, bodies.MAX_TOKENS, {"temperature": 0.5})
    assert asked.keys() == first.keys() and asked["tools"] == first["tools"]
    assert [message["role"] for message in asked["messages"]] == [message["role"] for message in first["messages"]]
    assert [message.keys() for message in asked["messages"]] == [message.keys() for message in first["messages"]]


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("small", "max_tokens"), ("gpt-4o", "max_tokens"), ("o3-mini-custom", "max_tokens"), ("qwen/o5", "max_tokens"),
        ("my-gpt-5-proxy", "max_completion_tokens"), ("openai/o3-mini", "max_completion_tokens"),
        ("o1-2024-12-17", "max_completion_tokens"),
    ],
)  # fmt: skip
def test_the_limit_is_asked_for_by_the_name_that_the_agent_uses_for_the_model(model: str, limit: str) -> None:
    fields = question(model, 16, {})
    assert {name: value for name, value in fields.items() if "tokens" in name} == {limit: 16}
