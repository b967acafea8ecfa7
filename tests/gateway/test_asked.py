"""What may be passed through? Only the declared models, in whichever place a server looks for one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.images.gateway.model_gateway import asked
from runs.images.gateway.model_gateway.apis import APIS
from runs.images.gateway.model_gateway.asked import check_query, find_api, find_model, passed_headers, screen
from runs.images.gateway.model_gateway.incoming import Head
from runs.images.gateway.model_gateway.policy import Refused

MODELS = ("alias", "vendor/second")
CHAT = APIS["chat-completions"]


def refusal(body: Any, api: str = "chat-completions") -> str:
    with pytest.raises(Refused) as caught:
        screen(body if isinstance(body, bytes) else json.dumps(body).encode(), APIS[api], MODELS)
    return caught.value.code


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("model", MODELS)
def test_a_declared_model_passes_with_whatever_else_its_api_knows(api: str, model: str) -> None:
    body = {"model": model, "é": [1.5, None, {"tools": "x"}], "temperature": 0, "tools": [{"type": "web"}]}
    assert json.loads(screen(json.dumps(body).encode(), APIS[api], MODELS)) == body


def test_the_prefix_that_clients_put_before_a_model_is_taken_off() -> None:
    assert json.loads(screen(b'{"model": "anthropic/alias"}', APIS["messages"], MODELS)) == {"model": "alias"}
    assert refusal({"model": "anthropic/anthropic/alias"}, "messages") == "body.model"


@pytest.mark.parametrize(
    "model", [None, "other", "alias ", "ALIAS", "alias\0", ["alias"], {"a": 1}, 1, "", "anthropic/x"]
)
def test_no_other_model_passes(model: Any) -> None:
    assert refusal({"model": model}) == "body.model"


def test_a_body_without_a_model_does_not_pass() -> None:
    assert refusal({}) == "body.model"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"model": "alias", "model": "other"}', "body.duplicate_key"),
        (b'{"model": "alias", "\\u006dodel": "other"}', "body.duplicate_key"),
        (b'{"model": "alias", "Model": "other"}', "body.routing"),
        ('{"model": "alias", "model\u017f": ["other"]}'.encode(), "body.routing"),
        (b'{"model": "alias", "models": ["other"]}', "body.routing"),
        (b'{"model": "alias", "fallbacks": ["other"]}', "body.routing"),
        (b'{"model": "alias", "FALLBACKS": ["other"]}', "body.routing"),
        (b'{"model": "alias", "api_base": "http://elsewhere"}', "body.routing"),
        (b'{"model": "alias", "tools": [{"type": "advisor", "model": "other"}]}', "body.model"),
        (b'{"model": "alias", "tools": [{"type": "advisor", "MODEL": "other"}]}', "body.routing"),
        (b'{"model": "alias", "background": true}', "body.background"),
        (b'{"model": "alias", "stream": 1}', "body.stream"),
        (b'["alias"]', "body.not_an_object"),
        (b"\xef\xbb\xbf{}", "body.json"),
        (b'{"model": "alias"} {"model": "other"}', "body.json"),
        ('{"model": "alias"}'.encode("utf-16"), "body.utf8"),
        (b'{"model": "alias", "x": "\\ud800"}', "body.utf8"),
        (b'{"model": "alias", "x": NaN}', "body.json"),
        (b'{"model": "alias", "x": ' + b"[" * 70 + b"]" * 70 + b"}", "body.depth"),
    ],
)
def test_another_model_is_found_in_every_place(body: bytes, code: str) -> None:
    assert refusal(body) == code


@pytest.mark.parametrize("api", ["embeddings", "count-tokens"])
def test_what_has_no_streams_is_asked_for_none(api: str) -> None:
    assert refusal({"model": "alias", "stream": True}, api) == "body.stream"


@given(st.dictionaries(st.text(max_size=8), st.none() | st.text(max_size=5), max_size=4), st.sampled_from(MODELS))
def test_what_goes_out_always_names_a_declared_model_once(fields: dict[str, Any], model: str) -> None:
    try:
        out = screen(json.dumps({**fields, "model": model}).encode(), CHAT, MODELS)
    except Refused:
        return
    pairs = json.loads(out, object_pairs_hook=list)
    assert [value for name, value in pairs if name.casefold() == "model"] == [model]


@pytest.mark.parametrize("query", [b"", b"beta=true", b"a=b&c=%20;d", b"model_info=1", b"x" * 1024])
def test_a_query_passes(query: bytes) -> None:
    check_query(query)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"model=other", "query.model"),
        (b"beta=true&model=other", "query.model"),
        (b"a;%6dodel=other", "query.model"),
        (b"MODEL=other", "query.model"),
        (b"+model=other", "query.model"),
        (b"model[]=other", "query.model"),
        (b"%6d%6f%64%65%6c%5b%5d=other", "query.model"),
        (b"api_base=http://elsewhere", "query.model"),
        (b"a b", "query"),
        (b"a#b", "query"),
        ("é".encode(), "query"),
        (b"x" * 1025, "query"),
    ],
)
def test_a_query_that_may_name_another_model_does_not(query: bytes, code: str) -> None:
    with pytest.raises(Refused) as caught:
        check_query(query)
    assert caught.value.code == code


def head(*headers: tuple[bytes, bytes]) -> Head:
    return Head(b"POST", b"/v1/messages", headers)


def test_of_the_headers_only_those_of_the_api_pass() -> None:
    given = head((b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"a-1, b-2"), (b"x-api-key", b"k"),
                 (b"anthropic-beta", b"c"), (b"cookie", b"c"), (b"authorization", b"Bearer t"))  # fmt: skip
    expected = (("anthropic-version", "2023-06-01"), ("anthropic-beta", "a-1, b-2"), ("anthropic-beta", "c"))
    assert passed_headers(given) == expected


@pytest.mark.parametrize("value", [b"\x80", b"a\tb", b"x" * (asked.MAX_HEADER_BYTES + 1)])
def test_a_header_that_is_not_short_visible_ascii_is_refused(value: bytes) -> None:
    with pytest.raises(Refused) as caught:
        passed_headers(head((b"anthropic-beta", value)))
    assert caught.value.code == "header"


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        (b"POST", b"/v1/messages", "messages"),
        (b"POST", b"/v1/messages/count_tokens", "count-tokens"),
        (b"POST", b"/v1/messages/", None),
        (b"POST", b"/v1/v1/messages", None),
        (b"POST", b"/v1/messages/batches", None),
        (b"GET", b"/v1/messages", None),
        (b"POST", b"/v1/responses", None),
    ],
)
def test_a_path_is_matched_before_any_decoding_and_only_when_the_plan_names_it(
    method: bytes, path: bytes, found: str | None
) -> None:
    api = find_api(method, path, frozenset({"messages", "count-tokens", "models"}))
    assert (api and api.name) == found


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (b"/v1/models/alias", "alias"),
        (b"/v1/models/vendor/second", "vendor/second"),
        (b"/v1/models/vendor%2Fsecond", "vendor/second"),
        (b"/v1/models/other", None),
        (b"/v1/models/", None),
        (b"/v1/models/%61lias", None),
    ],
)
def test_a_model_is_asked_about_by_its_declared_name(path: bytes, model: str | None) -> None:
    assert find_model(path, MODELS) == model
