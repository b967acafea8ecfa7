"""Which bodies go to the endpoint, and in which form? The gateway's policy is a pure function."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.images.gateway.model_gateway import policy
from runs.images.gateway.model_gateway.config import ConfigError, parse_config
from runs.images.gateway.model_gateway.policy import Declared, Refused, screen
from tests.gateway.bodies import ALIAS, BASH_TOOL, MAX_TOKENS, encoded, request
from tests.gateway.process import configuration

DECLARED = Declared(ALIAS, MAX_TOKENS)


def screened(body: bytes) -> Any:
    return json.loads(screen(body, DECLARED))


def refusal(body: bytes) -> str:
    with pytest.raises(Refused) as caught:
        screen(body, DECLARED)
    return caught.value.code


def tool_refusal(schema: dict[str, object]) -> str:
    return refusal(encoded(tools=[{"type": "function", "function": {"name": "a", "parameters": schema}}]))


def test_the_agents_own_request_goes_out_with_the_same_meaning() -> None:
    assert screened(encoded()) == request()


def test_a_body_is_written_anew_and_not_passed_through() -> None:
    spaced = json.dumps(request(), indent=4).encode()
    assert screen(spaced, DECLARED) == screen(encoded(), DECLARED)


def test_what_the_agent_echoes_of_the_endpoints_message_is_left_out_without_a_refusal() -> None:
    call = {
        "index": 0, "vendor": 1, "id": "call_1", "type": "function",
        "function": {"name": "bash", "arguments": "{}", "more": 1},
    }  # fmt: skip
    echoed = {
        "role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm",
        "thinking_blocks": [{"type": "thinking"}], "provider_specific_fields": {"url": "http://x"},
        "annotations": [], "audio": None,
    }  # fmt: skip
    messages = [
        {"role": "user", "content": "u"},
        echoed,
        {"role": "tool", "content": "", "tool_call_id": "call_1"},
    ]
    assert screened(encoded(messages=messages))["messages"][1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
        "reasoning_content": "hm",
    }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"store": True}, "body.unknown_field"),
        ({"metadata": {}}, "body.unknown_field"),
        ({"max_completion_tokens": MAX_TOKENS}, "body.max_tokens"),
        ({"web_search_options": {}}, "body.unknown_field"),
        ({"extra_body": {}}, "body.unknown_field"),
        ({"model": "another"}, "body.model"),
        ({"model": None}, "body.model"),
        ({"max_tokens": MAX_TOKENS - 1}, "body.max_tokens"),
        ({"max_tokens": MAX_TOKENS + 1}, "body.max_tokens"),
        ({"max_tokens": float(MAX_TOKENS)}, "body.max_tokens"),
        ({"max_tokens": None}, "body.max_tokens"),
        ({"n": 2}, "body.n"),
        ({"n": True}, "body.n"),
        ({"stream": True}, "body.stream"),
        ({"stream": 0}, "body.stream"),
        ({"temperature": 3}, "body.sampling"),
        ({"temperature": True}, "body.sampling"),
        ({"seed": 2**63}, "body.sampling"),
        ({"parallel_tool_calls": 1}, "body.boolean"),
        ({"messages": []}, "body.messages"),
        ({"messages": "hi"}, "body.messages"),
        ({"messages": ["hi"]}, "body.message"),
        ({"messages": [{"role": "developer", "content": ""}]}, "body.role"),
        ({"messages": [{"role": "user", "content": "u", "name": "x"}]}, "body.message_field"),
        ({"messages": [{"role": "user"}]}, "body.message_field"),
        ({"messages": [{"role": "user", "content": None}]}, "body.content"),
        ({"messages": [{"role": "assistant", "content": None}]}, "body.empty_message"),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"type": "function"}]}]},
            "body.tool_call",
        ),
        ({"tools": [{"type": "web_search"}]}, "body.tool_type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "body.name"),
        ({"tools": [{"type": "function", "function": {"name": "a", "url": "http://x"}}]}, "body.tool"),
        ({"tools": [BASH_TOOL] * 17}, "body.tools"),
        ({"tool_choice": {"type": "mcp"}}, "body.tool_choice"),
    ],
)
def test_a_field_that_is_not_allowed_is_refused(changes: dict[str, Any], code: str) -> None:
    assert refusal(encoded(**changes)) == code


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_a_part_that_is_not_text_is_refused(kind: str) -> None:
    part = {"type": kind, kind: {"url": "http://192.0.2.1/x"}}
    assert refusal(encoded(messages=[{"role": "user", "content": [part]}])) == "body.content_part"


def test_text_parts_are_allowed() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "u"}]}
    assert screened(encoded(messages=[message]))["messages"] == [message]


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize(
    "value",
    [
        "http://192.0.2.1/s",
        "//192.0.2.1/s",
        "s.json",
        "s.json#",
        "",
        " #",
        "urn:x",
        "file:///etc/passwd",
        None,
        1,
        {},
        ["#"],
    ],
)
def test_a_schema_that_points_elsewhere_is_refused(word: str, value: object) -> None:
    assert tool_refusal({"properties": {"x": [{word: value}]}}) == "body.tool_reference"


@pytest.mark.parametrize(
    "member",
    [
        {"$schema": "https://json-schema.org/draft/2020-12/schema"}, {"$schema": "http://192.0.2.1/s"}, {"$schema": ""},
        {"$id": "http://192.0.2.1/s"}, {"$id": "s"}, {"$id": None}, {"$vocabulary": {"http://192.0.2.1/v": True}},
        {"$anchor": "http://192.0.2.1/s"}, {"$anchor": ""}, {"$anchor": "a#b"}, {"$anchor": 1}, {"$anchor": "a\n"},
        {"$dynamicAnchor": "//192.0.2.1"}, {"$recursiveAnchor": "http://192.0.2.1/s"}, {"$defs": "http://192.0.2.1/s"},
        {"$comment": {"$ref": "#"}}, {"$data": "1/a"}, {"$other": 1}, {"$": ""}, {"$REF": "#"},
        {"id": "http://192.0.2.1/s"}, {"id": "s.json"}, {"id": "#a"}, {"id": "/s"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["top", "property", "list", "definition"])
def test_a_schema_with_an_address_of_its_own_is_refused(member: dict[str, object], place: str) -> None:
    schemas = {
        "top": member,
        "property": {"properties": {"x": member}},
        "list": {"anyOf": [{"type": "string"}, member]},
        "definition": {"$defs": {"x": {"items": member}}},
    }
    assert tool_refusal(schemas[place]) == "body.tool_reference"


def test_a_schema_that_refers_within_itself_is_sent_as_it_is() -> None:
    schema = {
        "$comment": "see http://192.0.2.1/s, which nobody fetches",
        "$defs": {"a": {"$anchor": "a", "$dynamicAnchor": "b", "type": "string", "description": "https://example.com"}},
        "$recursiveAnchor": True,
        "properties": {
            "x": {"$ref": "#/$defs/a"}, "y": {"$dynamicRef": "#b"}, "z": {"$recursiveRef": "#"},
            "id": {"type": "string", "default": {"id": "call_1"}},
        },
    }  # fmt: skip
    tool = {"type": "function", "function": {"name": "a", "parameters": schema}}
    assert screened(encoded(tools=[tool]))["tools"] == [tool]


@pytest.mark.parametrize("missing", ["model", "messages", "max_tokens"])
def test_a_missing_field_is_refused(missing: str) -> None:
    body = request()
    del body[missing]
    assert refusal(json.dumps(body).encode()) == f"body.{missing}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "body.json"),
        (b"[]", "body.not_an_object"),
        (b'{"model":"alias","model":"alias"}', "body.duplicate_key"),
        (b'{"a":{"b":1,"b":2}}', "body.duplicate_key"),
        (b'{"a":NaN}', "body.json"),
        (b'{"a":1e999}', "body.json"),
        (b'\xef\xbb\xbf{"a":1}', "body.json"),
        (b'{"a":"\xff"}', "body.utf8"),
        (b'{"a":"\\ud800"}', "body.utf8"),
        (b"[" * 33, "body.depth"),
        (b"[" * 1_000_000, "body.depth"),
        (b"[" + b"1," * 70_000, "body.items"),
        (b'{"a":"' + b"x" * policy.MAX_BODY_BYTES + b'"}', "body.size"),
        (b'{"a":' + b"9" * 100_000 + b"}", "body.json"),
        (b'{"a":1} {"b":2}', "body.json"),
    ],
)
def test_text_that_two_parsers_might_read_differently_is_refused(body: bytes, code: str) -> None:
    assert refusal(body) == code


def test_commas_and_brackets_inside_strings_are_not_counted() -> None:
    text = 'a,[{"' * 50_000
    assert screened(encoded(messages=[{"role": "user", "content": text}]))["messages"][0]["content"] == text


def test_a_long_text_of_escapes_that_never_ends_is_refused_and_read_once() -> None:
    assert refusal(b'{"a":"' + b'\\"' * 1_000_000) == "body.json"


def test_32_steps_with_eight_calls_each_are_within_the_bounds() -> None:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": "{}"}} for n in range(8)]
    answers = [{"role": "tool", "content": "", "tool_call_id": call["id"]} for call in calls]
    messages = [{"role": "user", "content": "u"}]
    messages += [{"role": "assistant", "content": "", "tool_calls": calls}, *answers] * 32  # type: ignore[list-item]
    assert screened(encoded(messages=messages))["messages"] == messages


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_screened_and_never_crash(body: bytes) -> None:
    assert refusal(body).startswith("body.")


@given(st.sampled_from([*request(), "tool_choice", "n", "stream", "seed", "top_p", "other"]), json_values)
def test_whatever_goes_out_has_only_allowed_fields_and_the_declared_caps(name: str, value: Any) -> None:
    try:
        body = screened(json.dumps(request(**{name: value})).encode())
    except Refused:
        return
    assert set(body) <= policy._ALLOWED
    assert (body["model"], body["max_tokens"]) == (ALIAS, MAX_TOKENS)
    assert body.get("n", 1) == 1 and body.get("stream", False) is False
    assert all(tool["type"] == "function" for tool in body.get("tools", []))


@given(json_values)
def test_no_unknown_message_field_survives(value: Any) -> None:
    message = {"role": "assistant", "content": "c", "unknown": value}
    body = json.dumps(request(messages=[message]), allow_nan=True).encode()
    try:
        assert screened(body)["messages"] == [{"role": "assistant", "content": "c"}]
    except Refused as refused:
        assert refused.code in {"body.json", "body.depth", "body.utf8"}


FIXED = Declared(ALIAS, MAX_TOKENS, {"temperature": 0.0, "top_p": 1.0, "seed": 1})
HONEST = {"temperature": 0, "top_p": 1.0, "seed": 1}


def test_a_request_with_the_fixed_sampling_passes_and_keeps_it() -> None:
    sent = json.loads(screen(encoded(**HONEST), FIXED))
    assert {name: sent[name] for name in HONEST} == HONEST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"temperature": 0.1}, "body.temperature"),
        ({"temperature": 1e-9}, "body.temperature"),
        ({"temperature": None}, "body.sampling"),
        ({"temperature": False}, "body.sampling"),
        ({"top_p": 0.5}, "body.top_p"),
        ({"top_p": True}, "body.sampling"),
        ({"seed": 2}, "body.seed"),
        ({"seed": True}, "body.sampling"),
        ({"seed": 1.0}, "body.sampling"),
    ],
)
def test_a_request_with_another_value_than_the_fixed_one_is_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as caught:
        screen(encoded(**HONEST | changes), FIXED)
    assert caught.value.code == code


@pytest.mark.parametrize("name", list(HONEST))
def test_a_request_without_a_fixed_control_is_refused_for_the_endpoint_would_choose(name: str) -> None:
    body = {key: value for key, value in HONEST.items() if key != name}
    with pytest.raises(Refused) as caught:
        screen(encoded(**body), FIXED)
    assert caught.value.code == f"body.{name}"


def test_what_is_left_to_the_agent_passes_with_any_value_and_without_one() -> None:
    for value in (0, 0.7, 2):
        assert screened(encoded(temperature=value))["temperature"] == value
    assert "temperature" not in screened(encoded())


def limits(**sampling: Any) -> bytes:
    return json.dumps(configuration("http://192.0.2.1/v1", sampling=sampling)).encode()


def test_the_gateway_is_told_what_is_fixed() -> None:
    assert parse_config(limits(temperature=0.5, seed=3)).limits.sampling == {"temperature": 0.5, "seed": 3}


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperatur": 0}, {"temperature": "0"}, {"temperature": True}, {"temperature": 2.1}, {"top_p": 1.1},
        {"top_p": None}, {"seed": 1.0}, {"seed": -1}, {"seed": True}, {"seed": 2**63},
    ],
)  # fmt: skip
def test_a_gateway_that_is_told_something_else_does_not_start(sampling: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"limits\.sampling"):
        parse_config(limits(**sampling))
