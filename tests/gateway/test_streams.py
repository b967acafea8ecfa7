"""A stream is the same events and the same answer in whatever pieces its bytes come."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.images.gateway.model_gateway.apis import APIS
from runs.images.gateway.model_gateway.completion import MAX_JUDGED_BYTES, Judgement
from runs.images.gateway.model_gateway.sse import Block, Event, EventReader, EventTooLarge
from runs.scripted.apis import CHAT, MESSAGES, RESPONSES, said_as, streamed
from runs.scripted.scripts import Step
from runs.scripted.server import completion

ALIAS = "alias"
ACCEPTED = frozenset({ALIAS})
STREAMED = {"chat-completions": CHAT, "responses": RESPONSES, "messages": MESSAGES}
BASH = {"tools": [{"name": "bash"}]}


def read(data: bytes, cuts: list[int]) -> list[Block]:
    reader, blocks, start = EventReader(1 << 20), [], 0
    for cut in [*sorted(cuts), len(data)]:
        blocks += reader.feed(data[start:cut])
        start = max(start, cut)
    return blocks + reader.finish()


def judged(name: str, data: bytes, cuts: list[int] | None = None) -> Judgement:
    api = APIS[name]
    assert api.assembly is not None
    assembly = api.assembly()
    for block in read(data, cuts or []):
        if block.event is not None and not assembly.ended:
            assembly.add(block.event)
    return assembly.judge(api.judge, ACCEPTED)


def answer(name: str, words: str = "I look.", model: str = ALIAS, **changes: Any) -> dict[str, Any]:
    """What the scripted endpoint says in that API."""
    said = completion(model, Step(words, "ls /app"), [{"role": "user", "content": "question"}])
    said["choices"][0] |= changes
    return said_as(STREAMED[name], BASH, said)


def stream(name: str, **changes: Any) -> bytes:
    return b"".join(streamed(STREAMED[name], answer(name, **changes)))


MEMBERS = [
    *("type", "choices", "delta", "index", "message", "content", "usage", "tool_calls", "function", "content_block"),
    *("response", "output", "partial_json", "text", "role", "id", "name"),
]
# Everything of which the format is made, and texts with every kind of end of a line.
LINES = st.lists(
    st.sampled_from(
        [b"data: x", b"data:", b"event: e", b": ping", b"", b"data: \xc3\xa9", b"id: 1", b"\xef\xbb\xbfdata: y"]
    )
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(LINES, st.randoms(use_true_random=False), st.data())
def test_events_do_not_depend_on_the_pieces_that_they_come_in(
    lines: list[bytes], rng: random.Random, data: st.DataObject
) -> None:
    text = b"".join(line + data.draw(ENDS) for line in lines)
    whole = read(text, [])
    pieces = read(text, [rng.randrange(len(text) + 1) for _ in range(rng.randrange(8))])
    assert [block.event for block in pieces] == [block.event for block in whole]
    assert b"".join(block.raw for block in pieces) == text


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), min_size=1), ENDS)
def test_what_was_written_as_events_is_read_as_them(texts: list[str], end: bytes) -> None:
    written = b"".join(b"event: e" + end + b"data: " + text.encode() + end + end for text in texts)
    cuts = list(range(len(written)))
    assert [block.event for block in read(written, cuts)] == [Event("e", text.encode()) for text in texts]


def test_an_event_beyond_the_bound_is_not_kept() -> None:
    reader = EventReader(100)
    with pytest.raises(EventTooLarge):
        for _ in range(20):
            reader.feed(b"data: 12345")


@pytest.mark.parametrize("block", [b"\n\n", b":\n\n", b"data:\n\n", b"data: {}\n\n"])
def test_a_stream_of_more_blocks_than_an_answer_has_is_not_read_to_its_end(block: bytes) -> None:
    reader = EventReader(100, most_blocks=10)
    assert len(reader.feed(block * 10)) == 10
    with pytest.raises(EventTooLarge):
        reader.feed(block * 2)


@pytest.mark.parametrize("name", STREAMED)
@given(words=st.text(min_size=1), rng=st.randoms(use_true_random=False))
def test_a_stream_is_judged_as_the_answer_without_one_however_it_is_cut_into_pieces(
    name: str, words: str, rng: random.Random
) -> None:
    body = json.dumps(answer(name, words)).encode()
    data = stream(name, words=words)
    cuts = [rng.randrange(len(data)) for _ in range(rng.randrange(20))]
    seen, expected = judged(name, data, cuts), APIS[name].judge(body, ACCEPTED)
    assert expected.kind == "ok" and expected.message_sha256 is not None
    for field in ("kind", "code", "flags", "prompt_tokens", "completion_tokens", "message_sha256"):
        assert getattr(seen, field) == getattr(expected, field), field


@pytest.mark.parametrize("name", STREAMED)
@given(share=st.floats(0, 0.999))
def test_a_stream_that_ends_early_is_no_answer(name: str, share: float) -> None:
    data = stream(name)
    assert judged(name, data[: int(len(data) * share)]) == Judgement("malformed", "event_stream_cut")


@pytest.mark.parametrize("name", STREAMED)
def test_another_model_in_a_stream_is_seen(name: str) -> None:
    assert judged(name, stream(name, model="other")).kind == "wrong_model"


@pytest.mark.parametrize("name", STREAMED)
def test_an_answer_that_was_cut_at_its_limit_says_so(name: str) -> None:
    assert judged(name, stream(name, finish_reason="length")).flags == ("cut",)


@pytest.mark.parametrize(
    ("name", "event", "status"),
    [
        ("chat-completions", b'data: {"error": {"message": "m", "code": 429}}\n\n', 429),
        ("chat-completions", b'data: {"error": {"message": "m"}}\n\n', None),
        ("messages", b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n', 503),
        ("responses", b'data: {"type": "error", "code": "rate_limit_exceeded", "message": "m"}\n\n', 429),
        (
            "responses",
            b'data: {"type": "response.failed", "response": {"error": {"code": "server_error"}}}\n\n',
            500,
        ),
    ],
)
def test_an_error_in_a_stream_is_the_endpoints(name: str, event: bytes, status: int | None) -> None:
    begun = stream(name).split(b"\n\n")[0] + b"\n\n"
    seen = judged(name, begun + event)
    assert (seen.kind, seen.code, seen.said_status) == ("upstream_error", "error_in_success", status)


def test_a_model_that_refuses_is_told_from_one_that_answers() -> None:
    refused = answer("messages") | {"stop_reason": "refusal"}
    assert judged("messages", b"".join(streamed(MESSAGES, refused))).flags == ("refused",)
    filtered = answer("responses") | {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    assert judged("responses", b"".join(streamed(RESPONSES, filtered))).flags == ("refused",)
    assert judged("chat-completions", stream("chat-completions", finish_reason="content_filter")).flags == ("refused",)


def test_usage_that_a_stream_does_not_report_is_not_reported() -> None:
    seen = judged("chat-completions", b"".join(streamed(CHAT, answer("chat-completions"), include_usage=False)))
    assert (seen.kind, seen.prompt_tokens, seen.completion_tokens) == ("ok", None, None)


@pytest.mark.parametrize("name", STREAMED)
@given(
    junk=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner, max_size=5,
        ),
        max_leaves=12,
    ),
    kind=st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta",
                          "response.completed", "response.failed", None]),
)  # fmt: skip
def test_whatever_an_endpoint_streams_is_judged_and_never_an_exception(name: str, junk: Any, kind: str | None) -> None:
    data = stream(name).split(b"\n\n")
    event = {**junk, **({"type": kind} if kind else {})} if isinstance(junk, dict) else junk
    data.insert(len(data) // 2, b"data: " + json.dumps(event).encode())
    assert judged(name, b"\n\n".join(data)).kind in {"ok", "malformed", "upstream_error", "wrong_model"}


def test_a_long_text_in_small_pieces_is_put_together_and_one_beyond_the_bound_is_none() -> None:
    piece = json.dumps({"model": ALIAS, "choices": [{"index": 0, "delta": {"content": "x" * 4000}}]}).encode()
    end = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    event = b"data: " + piece + b"\n\n"
    assert judged("chat-completions", event * 500 + end).kind == "ok"
    seen = judged("chat-completions", event * (MAX_JUDGED_BYTES // 4000 + 1) + end)
    assert (seen.kind, seen.code) == ("malformed", "event")
