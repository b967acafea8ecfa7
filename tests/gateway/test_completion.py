"""Which answers of an endpoint are completions by the declared model?"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.documents.ledger import message_digest
from runs.images.gateway.model_gateway.completion import judge
from tests.gateway.bodies import ALIAS, completion

ACCEPTED = frozenset({ALIAS, "served-name"})


def kind(body: Any) -> str:
    return judge(body if isinstance(body, bytes) else json.dumps(body).encode(), ACCEPTED).kind


def test_a_completion_gives_its_tokens_and_a_digest_of_what_was_said() -> None:
    judgement = judge(json.dumps(completion()).encode(), ACCEPTED)
    assert (judgement.kind, judgement.prompt_tokens, judgement.completion_tokens) == ("ok", 5, 7)
    assert judgement.message_sha256 == message_digest("I look.", [("c1", "bash", '{"command": "ls"}')])


def test_the_endpoints_declared_other_name_counts_as_right() -> None:
    assert kind(completion(model="served-name")) == "ok"


def test_another_name_is_the_wrong_model() -> None:
    assert kind(completion(model="alias-2")) == "wrong_model"


@pytest.mark.parametrize(
    "body",
    [
        {"ok": True},
        [],
        b"",
        b"<html>",
        b'{"model":"alias","model":"alias"}',
        b" " * (4 * 1024 * 1024) + json.dumps(completion()).encode(),
        completion(model=None),
        completion(choices=[]),
        completion(choices=[{"message": "hi"}]),
        completion(choices=[{"message": {"role": "user", "content": "hi"}}]),
        completion(choices=[{"message": {"role": "assistant", "content": 1}}]),
        completion(choices=[{"message": {"role": "assistant", "content": "x", "tool_calls": [{"id": "c"}]}}]),
    ],
)
def test_what_is_no_completion_is_malformed(body: Any) -> None:
    assert kind(body) == "malformed"


@pytest.mark.parametrize(
    "usage", [None, {}, "x", {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 1.0}]
)
def test_usage_that_is_not_a_count_is_not_reported(usage: Any) -> None:
    judgement = judge(json.dumps(completion(usage=usage)).encode(), ACCEPTED)
    assert (judgement.kind, judgement.prompt_tokens) == ("ok", None)


@given(st.binary(max_size=100))
def test_any_bytes_are_judged(body: bytes) -> None:
    assert kind(body) == "malformed"
