"""What the endpoint said goes back as it said it; what it did not say goes back as the allow-list has it, or not."""

import json
import os
from datetime import UTC, datetime
from typing import Any

import pytest

from runs.images.gateway.model_gateway import policy, said
from runs.images.gateway.model_gateway.complaints import MAX_RETRY_AFTER_S, overflows, retry_after_s, status_of
from runs.images.gateway.model_gateway.completion import spoken_of
from runs.images.gateway.model_gateway.policy import Declared, Refused, own_fault, screen
from runs.images.gateway.model_gateway.said import Said
from tests.gateway.bodies import ALIAS, MAX_TOKENS, encoded
from tests.gateway.echoing import echoed

DECLARED = Declared(ALIAS, MAX_TOKENS)


def message(**changes: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}, "signature": "S"}
    return {"role": "assistant", "content": "I look.", "tool_calls": [call], "vendor": {"v": 1}} | changes


def having_said(*messages: dict[str, Any]) -> Said:
    kept = Said()
    for each in messages:
        kept.keep(each, spoken_of(each))
    return kept


def sent(kept: Said, *echoes: dict[str, Any]) -> list[dict[str, Any]]:
    body = json.loads(screen(encoded(messages=[{"role": "user", "content": "u"}, *echoes]), DECLARED, kept))
    return list(body["messages"][1:])


def filtered(echo: dict[str, Any]) -> dict[str, Any]:
    return sent(Said(), echo)[0]


def changed(echo: dict[str, Any], **call: Any) -> dict[str, Any]:
    return echo | {"tool_calls": [echo["tool_calls"][0] | call]}


@pytest.mark.parametrize(
    "change",
    [
        lambda echo: echo | {"content": "I look"},
        lambda echo: echo | {"content": None},
        lambda echo: changed(echo, id="c2"),
        lambda echo: changed(echo, function={"name": "bash", "arguments": "{ }"}),
        lambda echo: changed(echo, function={"name": "sh", "arguments": "{}"}),
        lambda echo: echo | {"tool_calls": echo["tool_calls"] * 2},
        lambda echo: {name: value for name, value in echo.items() if name != "tool_calls"},
    ],
    ids=["text", "no-text", "id", "arguments", "name", "a-call-more", "no-calls"],
)
def test_what_the_endpoint_did_not_say_takes_nothing_of_what_it_said(change: Any) -> None:
    echo = change(echoed(message()))
    [went] = sent(having_said(message()), echo)
    assert went == filtered(echo) and "signature" not in json.dumps(went) and "vendor" not in went


def test_nothing_that_an_agent_adds_to_an_echo_goes_out() -> None:
    forged = echoed(message()) | {"vendor": {"v": 2}, "reasoning_content": "mine", "url": "http://192.0.2.1"}
    assert sent(having_said(message()), forged) == [message()]


def test_a_message_goes_back_as_often_as_it_was_said_and_no_oftener() -> None:
    """Or a short echo repeated in one body would become many times the endpoint's longest message."""
    echo = echoed(message())
    kept = having_said(message(), message(vendor={"v": 2}))
    assert sent(kept, echo, echo, echo) == [message(), message(vendor={"v": 2}), filtered(echo)]
    assert sent(kept, echo) == [message()]


def test_another_trials_words_are_not_known() -> None:
    assert sent(having_said(), echoed(message())) == [filtered(echoed(message()))]


def test_ids_tell_messages_apart_that_say_the_same() -> None:
    first, second = message(vendor=1), message(vendor=2)
    second = changed(second, id="c2")
    assert sent(having_said(first, second), echoed(second), echoed(first)) == [second, first]


def test_only_a_call_without_an_id_takes_the_agents() -> None:
    nameless = changed(message(), id=None)
    [went] = sent(having_said(nameless), echoed(nameless, "made-up"))
    assert went == changed(nameless, id="made-up")


def test_what_was_not_kept_is_refused_and_the_refusal_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said, "MAX_KEPT_BYTES", 1000)
    long = message(vendor=os.urandom(2000).hex())
    kept = having_said(message(), long)
    assert sent(kept, echoed(message())) == [message()]
    with pytest.raises(Refused) as caught:
        sent(kept, *[echoed(long)] * 2)
    assert own_fault(caught.value.code, kept) == "endpoint_words.not_kept"


def test_room_is_shared_by_the_trials_of_a_run() -> None:
    long = message(vendor=os.urandom(600_000).hex())
    for trials, fits in ((1, True), (100, False)):
        kept = Said(trials)
        kept.keep(long, spoken_of(long))
        if fits:
            assert sent(kept, echoed(long)) == [long]
            continue
        with pytest.raises(Refused):
            sent(kept, echoed(long))


@pytest.mark.parametrize(
    ("code", "said_by_the_endpoint", "ours"),
    [
        ("body.size", message(vendor="x" * (policy.MAX_BODY_BYTES + 1)), "endpoint_words.size"),
        ("body.items", message(vendor=[0] * (policy.MAX_ITEMS + 1)), "endpoint_words.items"),
        ("body.messages", message(tool_calls=message()["tool_calls"] * policy.MAX_MESSAGES), "endpoint_words.messages"),
        ("body.size", message(), None),
        ("body.items", message(), None),
        ("body.messages", message(), None),
        ("body.model", message(vendor="x" * (policy.MAX_BODY_BYTES + 1)), None),
        ("body.name", message(), None),
    ],
)
def test_a_refusal_is_ours_only_where_the_endpoints_words_alone_are_too_many(
    code: str, said_by_the_endpoint: dict[str, Any], ours: str | None
) -> None:
    assert own_fault(code, having_said(said_by_the_endpoint)) == ours


def test_either_name_of_the_token_limit_is_the_same_control() -> None:
    body = json.loads(encoded())
    body["max_completion_tokens"] = body.pop("max_tokens")
    assert json.loads(screen(json.dumps(body).encode(), DECLARED)) == body


@pytest.mark.parametrize("value", [MAX_TOKENS + 1, MAX_TOKENS - 1, float(MAX_TOKENS), True, None, "4096"])
def test_the_other_name_of_the_token_limit_is_held_to_the_same_number(value: Any) -> None:
    body = json.loads(encoded())
    del body["max_tokens"]
    with pytest.raises(Refused, match=r"body\.max_tokens"):
        screen(json.dumps(body | {"max_completion_tokens": value}).encode(), DECLARED)


NOW = datetime(2026, 8, 7, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), (b"7", 7), (b" 7 ", 7), (b"0", 0), (b"1.2", 2), (b"99999999", MAX_RETRY_AFTER_S), (b"-1", None),
        (b"1e3", None), (b"9" * 400, None), (b"soon", None), (b"", None), (b"\xff", None),
        (b"Fri, 07 Aug 2026 12:00:30 GMT", 30), (b"Fri, 07 Aug 2026 11:00:00 GMT", 0),
        (b"Fri, 07 Aug 2027 12:00:30 GMT", MAX_RETRY_AFTER_S), (b"Fri, 99 Aug 2026 12:00:30 GMT", None),
        (b"Fri, 07 Aug 2026 12:00:30 +9999", None), (b"Fri, 07 Aug 99999999999 12:00:30 GMT", None),
    ],
)  # fmt: skip
def test_the_seconds_of_retry_after(value: bytes | None, seconds: int | None) -> None:
    assert retry_after_s(value, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"error": {"code": "context_length_exceeded"}}, True),
        (422, {"error": {"type": "Context_Length_Exceeded"}}, True),
        (400, {"code": "context_length_exceeded", "object": "error"}, True),
        (400, [{"error": {"code": "context_length_exceeded"}}], True),
        (413, {"error": {"code": 400, "type": "exceed_context_size_error"}}, True),
        (400, {"error": {"message": "context_length_exceeded"}}, False),
        (400, {"error": "context_length_exceeded: too long"}, False),
        (400, {"error": {"code": ["context_length_exceeded"]}}, False),
        (400, {"error": {"code": "3051"}}, False),
        (401, {"error": {"code": "context_length_exceeded"}}, False),
        (400, b"context_length_exceeded", False),
        (400, b"[]", False),
    ],
)
def test_a_context_overflow_is_told_by_its_code(status: int, body: Any, expected: bool) -> None:
    assert overflows(status, body if isinstance(body, bytes) else json.dumps(body).encode()) is expected


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429}, 429), ({"code": "429"}, 429), ({"code": 200}, None), ({"code": 4290}, None),
        ({"code": True}, None), ({"code": None, "type": "rate_limit_error"}, 429), ({"status": "UNAUTHENTICATED"}, 401),
        ({"code": "no_such_word", "type": "server_error"}, 500), ("unauthorized", 401), ([], None), ({}, None),
        ({"code": "\u0664\u0662\u0669"}, None), ({"message": "429"}, None),
    ],
)  # fmt: skip
def test_the_status_that_an_error_stands_for(error: Any, status: int | None) -> None:
    assert status_of(error) == status
