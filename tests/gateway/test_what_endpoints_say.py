"""What an endpoint may say, and what it means: a table of forms that real ones use, each as a conversation.

What the endpoint did is never charged to the model, what the model did never to the endpoint, and a refusal of the
endpoint's own words is ours.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from evidence.trial.classify import classify_trial
from evidence.trial.endpoint import WHY_MALFORMED, endpoint_facts
from evidence.trial.facts import AgentFacts
from runs.documents.ledger import TrialLedger
from tests.evidence.trial_facts import PASSING
from tests.gateway.bodies import completion, encoded
from tests.gateway.echoing import echoed, results
from tests.gateway.process import RawEndpoint, configuration, http_answer, raw_endpoint, running

OTHER_NAME = "alias-2026-08-07"
START = [{"role": "user", "content": "u"}]


def call(**changes: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "type": "function",
        "function": {"name": "bash", "arguments": '{"command": "ls"}'},
    } | changes


def says(finish_reason: str | None = "tool_calls", *, top: dict[str, Any] | None = None, **message: Any) -> bytes:
    """A completion with this message."""
    said = {"role": "assistant", "content": "I look.", "tool_calls": [call()]} | message
    choices = [{"index": 0, "finish_reason": finish_reason, "message": said}]
    return http_answer(completion(choices=choices) | (top or {}))


def fails(status: int, error: Any, headers: str = "") -> bytes:
    return http_answer({"error": error}, status=f"{status} X", headers=headers)


GOOD = says()


@dataclass(frozen=True)
class Row:
    """`answers` in turn. `line` is what is recorded of the first: kind, code and flags; `result` is the code of a trial
    whose agent ended by itself (by the error, where the last answer is none) and whose work was graded 0."""

    name: str
    answers: tuple[bytes, ...]
    line: tuple[str, str | None, tuple[str, ...]] = ("ok", None, ())
    result: str = "failed.reward_0"
    badges: frozenset[str] = field(default_factory=frozenset)


def spoken(name: str, *flags: str, badges: set[str] | None = None, **message: Any) -> Row:
    """A completion, which the agent echoes before the endpoint says something else."""
    finish_reason = message.pop("finish_reason", "tool_calls")
    top = message.pop("top", None)
    answer = says(finish_reason, top=top, **message)
    return Row(name, (answer, GOOD), ("ok", None, flags), badges=frozenset(badges or set()))


def malformed(name: str, code: str, answer: bytes) -> Row:
    return Row(name, (answer,), ("malformed", code, ()), "serving_runtime.malformed_answer")


def inner(name: str, error: Any, result: str) -> Row:
    return Row(name, (http_answer({"error": error}),), ("upstream_error", "error_in_success", ()), result)


def overflow(name: str, status: int, error: Any) -> Row:
    badges = frozenset({"context_window_exceeded"})
    return Row(name, (fails(status, error), GOOD), ("upstream_error", "context_window", ()), badges=badges)


CUT, DECLINED = {"answer_cut"}, {"model_refused"}
TABLE = [
    spoken("plain"),
    spoken("empty id", tool_calls=[call(id="")]),
    spoken("two calls with empty ids", tool_calls=[call(id=""), call(id="")]),
    spoken("id of 900 characters", tool_calls=[call(id="i" * 900)]),
    spoken("id of any characters", tool_calls=[call(id='fü\n\0 "ñ" <|x|>')]),
    spoken("longest id", tool_calls=[call(id="é" * 2048)]),
    spoken("null id", tool_calls=[call(id=None)]),
    spoken("no type", tool_calls=[{"id": "c1", "function": {"name": "bash", "arguments": "{}"}}]),
    spoken("odd name", tool_calls=[call(function={"name": "bash<|channel|>commentary", "arguments": "{}"})]),
    spoken("arguments as an object", tool_calls=[call(function={"name": "bash", "arguments": {"command": "ls"}})]),
    spoken("signature at the call", tool_calls=[call(extra_content={"google": {"thought_signature": "S"}})]),
    spoken(
        "signature in the function",
        tool_calls=[call(function={"name": "bash", "arguments": "{}", "thought_signature": "S"})],
    ),
    spoken("fields of a vendor", extra_content={"google": 1}, thought_signature="S", annotations=[], audio=None),
    spoken("reasoning", content=None, reasoning_content="hm"),
    spoken("reasoning by another name", content="", reasoning="hm", reasoning_details=[{"type": "x", "data": "y"}]),
    spoken("thoughts in the text", content="<think>\nhm\n</think>\n\nI look."),
    spoken("no role", role=None),
    spoken("deep field", deep=json.loads("[" * 20 + "]" * 20)),
    spoken("no finish reason", finish_reason=None),
    spoken("usage missing", top={"usage": None}),
    spoken("usage in part", top={"usage": {"prompt_tokens": 3}}),
    spoken("another name that the record lists", top={"model": OTHER_NAME}),
    spoken("cut", "cut", finish_reason="length", badges=CUT),
    spoken(
        "nothing but reasoning, and cut",
        "cut",
        finish_reason="length",
        content=None,
        tool_calls=None,
        reasoning_content="I think",
        badges=CUT,
    ),
    spoken("empty text", finish_reason="stop", content="", tool_calls=[]),
    spoken("nothing at all", finish_reason="stop", content=None, tool_calls=None),
    spoken("text in parts", content=[{"type": "text", "text": "I "}, {"type": "text", "text": "look."}]),
    spoken(
        "thinking in parts",
        content=[
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "I look."},
        ],
    ),
    spoken("refusal in a part", "refused", content=[{"type": "refusal", "refusal": "no"}], badges=DECLINED),
    spoken("refusal", "refused", finish_reason="stop", content=None, tool_calls=None, refusal="no", badges=DECLINED),
    spoken("content filter", "refused", finish_reason="content_filter", content="", tool_calls=None, badges=DECLINED),
    inner("429 inside", {"code": 429, "message": "slow down"}, "serving_runtime.rate_limited"),
    inner("429 inside as text", {"code": "429"}, "serving_runtime.rate_limited"),
    inner("rate limit inside by its name", {"code": "rate_limit_exceeded"}, "serving_runtime.rate_limited"),
    inner(
        "key refused inside", {"type": "invalid_request_error", "code": "invalid_api_key"}, "authentication.rejected"
    ),
    inner("503 inside", {"code": 503, "type": "overloaded"}, "serving_runtime.upstream_status"),
    inner("no such model inside", {"code": "model_not_found"}, "routing.not_found"),
    inner("an error without a code inside", "no", "serving_runtime.error_in_success"),
    Row(
        "an error at the choice",
        (says("error", content="", tool_calls=None),),
        ("upstream_error", "error_in_success", ()),
        "serving_runtime.error_in_success",
    ),
    Row(
        "the context window, inside",
        (http_answer({"error": {"code": "context_length_exceeded"}}), GOOD),
        ("upstream_error", "context_window", ()),
        badges=frozenset({"context_window_exceeded"}),
    ),
    overflow("the context window", 400, {"code": "context_length_exceeded", "message": "maximum is 16384"}),
    overflow("llama.cpp's context window", 400, {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096}),
    overflow("the context window with 413", 413, {"type": "ContextWindowExceededError"}),
    Row(
        "the context window by a sentence only",
        (fails(400, {"message": "This model's maximum context length is 4096", "code": 400}),),
        ("upstream_error", "status", ()),
        "serving_runtime.upstream_status",
    ),
    Row(
        "the code of a context window with a 500",
        (fails(500, {"code": "context_length_exceeded"}),),
        ("upstream_error", "status", ()),
        "serving_runtime.upstream_status",
    ),
    Row(
        "429", (fails(429, {}, "Retry-After: 7\r\n"),), ("upstream_error", "status", ()), "serving_runtime.rate_limited"
    ),
    Row(
        "401",
        (fails(401, {"code": "context_length_exceeded"}),),
        ("upstream_error", "status", ()),
        "authentication.rejected",
    ),
    Row("another model", (says(top={"model": "other"}),), ("wrong_model", None, ()), "routing.wrong_model"),
    malformed("id beyond the bound", "tool_call_id", says(tool_calls=[call(id="é" * 2049)])),
    malformed("id that is a number", "tool_call_id", says(tool_calls=[call(id=1)])),
    malformed("call without a function", "tool_call", says(tool_calls=[{"id": "c"}])),
    malformed("call without a name", "tool_call", says(tool_calls=[call(function={"arguments": "{}"})])),
    malformed(
        "arguments that are a number", "tool_call", says(tool_calls=[call(function={"name": "a", "arguments": 1})])
    ),
    malformed("calls that are no list", "tool_calls", says(tool_calls={"0": call()})),
    malformed("content that is a number", "content", says(content=1)),
    malformed("a part that is a number", "content", says(content=[1])),
    malformed("another's role", "role", says(role="user")),
    malformed("no name of a model", "no_model", says(top={"model": None})),
    malformed("no choices", "no_choice", says(top={"choices": []})),
    malformed("no message", "no_message", says(top={"choices": [{"message": {}}]})),
    malformed("something else", "no_choice", http_answer({"ok": True})),
    malformed("a list", "not_an_object", http_answer(b"[]")),
    malformed("empty body", "empty", http_answer(b" \n")),
    malformed("HTML", "html", http_answer(b"\n<!DOCTYPE html><html><body>Bad gateway</body></html>")),
    malformed(
        "a proxy's banner",
        "text_before_json",
        http_answer(b"WARNING: trial licence\n" + json.dumps(completion()).encode()),
    ),
    malformed("plain text", "not_json", http_answer(b"upstream connect error")),
    malformed("JSON with a comma too many", "not_json", http_answer(b'{"a": 1,}')),
    malformed("cut JSON", "cut", http_answer(json.dumps(completion()).encode()[:-20])),
    malformed("a stream", "event_stream", http_answer(b'data: {"choices": []}\n\ndata: [DONE]\n\n')),
    malformed("a stream without its end", "event_stream_cut", http_answer(b': ping\n\ndata: {"choices": []}\n\n')),
    malformed("compressed unasked and unsaid", "compressed", http_answer(zlib.compress(b"{}" * 100))),
    malformed("a key twice", "duplicate_key", http_answer(b'{"model": "alias", "model": "alias"}')),
    malformed("too deep", "nesting", http_answer(b"[" * 40 + b"]" * 40)),
    malformed("not UTF-8", "encoding", http_answer(b'{"a": "\xff"}')),
    malformed("half a character", "encoding", http_answer(b'{"a": "\\ud800"}')),
    malformed("larger than a completion", "too_large", http_answer(b" " * (4 * 1024 * 1024 + 1))),
    Row(
        "compressed, and said so",
        (http_answer(b"x", headers="Content-Encoding: br\r\n"),),
        ("upstream_error", "compressed", ()),
        "serving_runtime.malformed_answer",
    ),
    Row(
        "a cut transfer",
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",),
        ("upstream_error", "cut", ()),
        "serving_runtime.malformed_answer",
    ),
    Row(
        "no HTTP", (b"SSH-2.0-OpenSSH\r\n\r\n",), ("upstream_error", "not_http", ()), "serving_runtime.malformed_answer"
    ),
]


@dataclass
class Played:
    """What came of a row: the trial's ledger, what the agent got and what the endpoint heard."""

    ledger: TrialLedger
    got: list[tuple[int, bytes]]
    heard: list[list[dict[str, Any]]]


@pytest.fixture(scope="module")
def played() -> Iterator[dict[str, Played]]:
    """Every row once, each as a trial of its own, in as few gateways as its trials allow."""
    found: dict[str, Played] = {}
    with raw_endpoint() as endpoint:
        for start in range(0, len(TABLE), 60):
            config = configuration(f"http://127.0.0.1:{endpoint.port}/v1", trials=60)
            config["endpoint"]["served_models"] = [OTHER_NAME]
            with running(config) as gateway:
                some = TABLE[start : start + 60]
                talks = [_play(gateway.ask, endpoint, row, trial) for trial, row in enumerate(some, start=1)]
                report = gateway.stop()
            assert report.intact
            for trial, (row, (got, heard)) in enumerate(zip(some, talks, strict=True), start=1):
                found[row.name] = Played(report.trial(trial), got, heard)
    yield found


def _play(ask: Any, endpoint: RawEndpoint, row: Row, trial: int) -> tuple[list[Any], list[Any]]:
    endpoint.heard.clear()
    messages, got = list(START), []
    for turn, answer in enumerate(row.answers, start=1):
        endpoint.respond = lambda _, answer=answer: answer
        got.append(ask(encoded(messages=messages), trial=trial))
        message = _message(got[-1][1])
        if message is not None and turn < len(row.answers):
            echo = echoed(message)
            messages += [echo, *results(echo), {"role": "user", "content": "on"}]
    return got, [json.loads(heard.partition(b"\r\n\r\n")[2])["messages"] for heard in endpoint.heard]


def _message(body: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(body)["choices"][0]["message"]
    except (ValueError, LookupError, TypeError):
        return None
    return message if message else None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_is_recorded_of_it(played: dict[str, Played], row: Row) -> None:
    lines = played[row.name].ledger.requests
    assert (lines[0].kind, lines[0].code, lines[0].flags) == row.line
    assert len(lines) == len(row.answers)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_it_means_for_the_trial(played: dict[str, Played], row: Row) -> None:
    ledger = played[row.name].ledger
    died = not ledger.requests[-1].is_completion
    facts = replace(
        PASSING,
        endpoint=endpoint_facts(ledger),
        agent=AgentFacts(ended=True, exit_code=int(died)),
        reward=replace(PASSING.reward, state=type(PASSING.reward.state).ZERO),
    )
    result = classify_trial(facts)
    assert result.code == row.result
    assert set(result.badges) - {"agent_exited_nonzero", "reward_not_counted"} == row.badges
    if row.result == "serving_runtime.malformed_answer":
        assert WHY_MALFORMED[row.line[1] or ""] in result.sentence


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.line[0] == "ok"], ids=lambda row: row.name
)  # fmt: skip
def test_the_echo_goes_back_as_the_endpoint_said_it(played: dict[str, Played], row: Row) -> None:
    said = json.loads(row.answers[0].partition(b"\r\n\r\n")[2])["choices"][0]["message"]
    sent = played[row.name].heard[1][1]
    for mine, theirs in zip(said.get("tool_calls") or [], sent.get("tool_calls") or [], strict=True):
        if mine["id"] is None:  # then the agent's, for the result is sent with it
            assert theirs.pop("id") == played[row.name].heard[1][2]["tool_call_id"]
            mine.pop("id")
    assert sent == {"role": "assistant"} | said


def test_an_agent_that_knows_only_text_gets_the_text_of_the_parts(played: dict[str, Played]) -> None:
    _, body = played["thinking in parts"].got[0]
    message = _message(body)
    assert message is not None
    assert (message["content"], message["reasoning_content"]) == ("I look.", "hm")


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("plain", (5, 7)), ("usage missing", (None, None)), ("usage in part", (3, None))],
)
def test_usage_that_is_missing_is_not_reported(
    played: dict[str, Played], name: str, tokens: tuple[int | None, int | None]
) -> None:
    line = played[name].ledger.requests[0]
    assert (line.prompt_tokens, line.completion_tokens) == tokens


def test_the_seconds_of_a_rate_limit_are_recorded(played: dict[str, Played]) -> None:
    assert [played[name].ledger.requests[0].retry_after_s for name in ("429", "plain")] == [7, None]


def test_the_status_inside_is_recorded_beside_the_one_outside(played: dict[str, Played]) -> None:
    line = played["429 inside as text"].ledger.requests[0]
    assert (line.status, line.said_status) == (200, 429)


def test_every_way_of_being_malformed_is_in_the_table() -> None:
    assert {row.line[1] for row in TABLE} >= set(WHY_MALFORMED)
