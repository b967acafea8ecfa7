"""The conversation of each pass-through API, whole or streamed, reads as that of an environment run does."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.trajectory import apis
from evidence.trajectory.apis import Answers, read_request
from evidence.trajectory.steps import Step
from runs.scripted.apis import CHAT, COUNT, EMBEDDINGS, MESSAGES, RESPONSES, said_as, streamed
from runs.scripted.scripts import Step as Scripted
from runs.scripted.server import completion
from tests.evidence.trajectory.test_transcript import told
from tests.evidence.transcripts import Conversation

PATHS = {"chat-completions": CHAT, "responses": RESPONSES, "messages": MESSAGES}
TOOL = {"name": "bash", "description": "a shell"}
OUTPUT = '{"returncode": 2, "output": "no such file"}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=8), below, max_size=4),
    max_leaves=20,
)


def question(api: str) -> dict[str, Any]:
    """The first request, as the API's own client sends it."""
    match api:
        case "responses":
            return {"model": "m", "instructions": "You work.", "input": "Sum it up.", "tools": [TOOL]}
        case "messages":
            said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Sum it up."}]}]
            return {"model": "m", "max_tokens": 9, "system": "You work.", "messages": said, "tools": [TOOL]}
        case _:
            first = [{"role": "system", "content": "You work."}, {"role": "user", "content": "Sum it up."}]
            return {"model": "m", "messages": first, "tools": [{"type": "function", "function": TOOL}]}


def gone_on(api: str, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The next request: the answer as it came, and what its call gave."""
    match api:
        case "responses":
            result = {"type": "function_call_output", "call_id": answer["output"][1]["call_id"], "output": OUTPUT}
            given = [{"role": "user", "content": request["input"]}, *answer["output"], result]
            return request | {"input": given}
        case "messages":
            called = answer["content"][1]["id"]
            result = {"type": "tool_result", "tool_use_id": called, "content": [{"type": "text", "text": OUTPUT}]}
            echo = {"role": "assistant", "content": answer["content"]}
            return request | {"messages": [*request["messages"], echo, {"role": "user", "content": [result]}]}
        case _:
            echo = answer["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": echo["tool_calls"][0]["id"], "content": OUTPUT}
            return request | {"messages": [*request["messages"], echo, result]}


def answered(api: str, request: dict[str, Any], step: Scripted) -> dict[str, Any]:
    return said_as(PATHS[api], request, completion("m", step, [{"role": "user", "content": step.words}]))


def held(api: str, *, as_stream: bool) -> Conversation:
    """Two turns: a call with its result, and another one."""
    conversation, request = Conversation(), question(api)
    for step in (Scripted("I look.", "ls"), Scripted("Again.", "cat a")):
        answer = answered(api, request, step)
        body = b"".join(streamed(PATHS[api], answer)) if as_stream else json.dumps(answer).encode()
        conversation.exchange(api, request, body, streamed=as_stream)
        request = gone_on(api, request, answer)
    return conversation


def words(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.source, step.message.text) for step in steps[1:]]


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
def test_the_conversation_of_each_api_reads_the_same(api: str, as_stream: bool) -> None:
    trajectory, steps = told(held(api, as_stream=as_stream))
    assert words(steps) == [("system", "You work."), ("user", "Sum it up."), ("model", "I look."), ("model", "Again.")]
    first, second = steps[3], steps[4]
    assert (first.calls[0].name, first.calls[0].arguments.text) == ("bash", "ls") and not first.results
    assert first.calls[0].results[0].returncode == 2 and first.calls[0].results[0].text.text == "no such file"
    assert second.calls[0].arguments.text == "cat a" and second.calls[0].results == ()
    assert all(step.notes == () and step.model == "m" and step.metrics is not None for step in steps[3:])
    assert trajectory.ledger.matched == 2 and trajectory.find("no such file") == (4,)


@pytest.mark.parametrize("api", PATHS)
def test_a_stream_that_was_cut_shows_what_had_come(api: str) -> None:
    conversation, request = Conversation(), question(api)
    events = list(streamed(PATHS[api], answered(api, request, Scripted("I look everywhere, and then.", "ls"))))
    conversation.exchange(api, request, b"".join(events[: len(events) // 2]), streamed=True)
    _, steps = told(conversation)
    # A response's words stand in its last event only.
    assert steps[-1].source == ("endpoint" if api == "responses" else "model")
    assert "judged_malformed" in steps[-1].notes and "I look" in steps[-1].message.text


@pytest.mark.parametrize(("api", "path"), [("embeddings", EMBEDDINGS), ("count-tokens", COUNT)])
def test_what_is_no_conversation_is_shown_as_it_was_asked_and_answered(api: str, path: str) -> None:
    conversation = held("messages", as_stream=False)
    request = {"model": "m", "input": ["some text"]} if api == "embeddings" else question("messages") | {"system": "X"}
    answer = said_as(path, request, completion("m", Scripted("x", "ls"), []))
    conversation.exchange(api, request, json.dumps(answer).encode())
    _, steps = told(conversation)
    assert [step.source for step in steps[-2:]] == ["request", "endpoint"] and steps[-1].notes == ("judged_answer",)


@pytest.mark.parametrize("api", PATHS)
def test_two_conversations_at_a_time_are_each_told_once(api: str) -> None:
    """An agent asks for a helper's sake between two steps of its own."""
    conversation, request = Conversation(), question(api)
    answer = answered(api, request, Scripted("I look.", "ls"))
    conversation.exchange(api, request, json.dumps(answer).encode())
    helper = json.loads(json.dumps(question(api)).replace("Sum it up.", "Name it."))
    helped = json.dumps(answered(api, helper, Scripted("A sum.", "true"))).replace("scripted_", "helpers_")
    conversation.exchange(api, helper, helped.encode())
    request = gone_on(api, request, answer)
    conversation.exchange(api, request, json.dumps(answered(api, request, Scripted("Done.", "true"))).encode())
    _, steps = told(conversation)
    assert [text for source, text in words(steps) if source != "tool"] == [
        "You work.", "Sum it up.", "I look.", "Name it.", "A sum.", "Done.",
    ]  # fmt: skip
    result = next(step for step in steps if step.source == "tool")
    assert "no such file" in result.message.text and not any(step.results for step in steps)


def test_a_stream_of_more_events_than_are_read_is_shown_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apis, "MOST_EVENTS", 10)
    conversation, request = Conversation(), question("messages")
    events = b"".join(streamed(MESSAGES, answered("messages", request, Scripted("word " * 100, "ls"))))
    conversation.exchange("messages", request, events, streamed=True)
    _, steps = told(conversation)
    assert steps[-1].source == "endpoint" and "event: message_start" in steps[-1].message.text


@given(st.sampled_from([*PATHS, "embeddings", "count-tokens", "unknown", None]), JSON, st.booleans())
def test_whatever_is_asked_and_answered_is_read(api: str | None, value: Any, as_stream: bool) -> None:
    names = ("messages", "input", "output", "content", "choices", "system", "instructions", "usage")
    for document in (value, dict.fromkeys(names, value), {"type": "message_start", "message": value}):
        data = json.dumps(document).encode()
        read_request(api, data)
        Answers().read(api, b"data: " + data + b"\n\n" if as_stream else data)


@given(st.sampled_from([*PATHS]), JSON, JSON)
def test_whatever_a_conversation_holds_it_is_told(api: str, asked: Any, said: Any) -> None:
    conversation = Conversation()
    named = {"messages": [asked], "input": [asked], "system": asked, "instructions": asked}
    answer = {"content": [said], "output": [said], "choices": [{"message": {"content": said, "tool_calls": [said]}}]}
    conversation.exchange(api, named, json.dumps(answer).encode())
    _, steps = told(conversation)
    assert steps[-1].source in ("model", "endpoint")
