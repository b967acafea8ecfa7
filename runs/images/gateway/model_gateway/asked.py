"""What may be passed through of a request: its path, its query, its few headers and its body. Pure.

The declared models are the only ones, wherever an endpoint or a router in front of it looks for a model: in the body,
in an alternative of the body, in a hosted tool, in the query.
"""

import json
import re
from typing import Any
from urllib.parse import quote, unquote_plus

from . import strict_json
from .apis import APIS, Api
from .incoming import Head
from .policy import PROBLEM_CODES, Refused

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_QUERY_BYTES = 1024
MAX_HEADER_BYTES = 1024
# A schema of a tool in a conversation of tools; the numbers of a text that is embedded as tokens.
_MAX_DEPTH = 64
_MAX_ITEMS = 524_288

_PASSED_HEADERS = (b"anthropic-version", b"anthropic-beta")
_VISIBLE = re.compile(rb"[\x20-\x7e]*")
_QUERY = re.compile(rb"[\x21\x22\x24-\x7e]*")  # no fragment
_ROUTER_PREFIX = "anthropic/"
# By these a router goes to another model, to another place or with another key.
_NOT_PASSED = frozenset(
    {
        "models", "fallbacks", "fallback_models", "context_window_fallback_dict", "route",
        "api_base", "base_url", "api_key", "extra_headers", "extra_body", "custom_llm_provider",
    }
)  # fmt: skip


def find_api(method: bytes, path: bytes, names: frozenset[str]) -> Api | None:
    """The API of that path, matched before any decoding, if the plan names it."""
    found = (api for api in APIS.values() if path == b"/v1" + api.path.encode("ascii") and api.name in names)
    return next(found, None) if method == b"POST" else None


def find_model(path: bytes, models: tuple[str, ...]) -> str | None:
    """The declared model of which the Models API is asked."""
    for model in models:
        if path in (f"/v1/models/{model}".encode("ascii"), f"/v1/models/{quote(model, safe='')}".encode("ascii")):
            return model
    return None


def check_query(query: bytes) -> None:
    """Raises Refused: query (its size or a character), query.model."""
    if len(query) > MAX_QUERY_BYTES or not _QUERY.fullmatch(query):
        raise Refused("query")
    for parameter in re.split(rb"[&;]", query):
        name = unquote_plus(parameter.split(b"=")[0].decode("ascii")).strip().lower()
        if name.split("[")[0] in _NOT_PASSED | {"model"}:
            raise Refused("query.model")


def passed_headers(head: Head) -> tuple[tuple[str, str], ...]:
    """The headers of the Anthropic API, as they came. Raises Refused: header."""
    found = [(name, value) for name, value in head.headers if name in _PASSED_HEADERS]
    if sum(len(value) for _, value in found) > MAX_HEADER_BYTES or not all(
        _VISIBLE.fullmatch(value) for _, value in found
    ):
        raise Refused("header")
    return tuple((name.decode("ascii"), value.decode("ascii")) for name, value in found)


def screen(body: bytes, api: Api, models: tuple[str, ...]) -> bytes:
    """The body to send, written anew so that nobody reads another one in it.

    Raises Refused. A model with the prefix that clients of the Anthropic API put before it is the model without.
    """
    try:
        document = strict_json.load(body, size=MAX_BODY_BYTES, depth=_MAX_DEPTH, items=_MAX_ITEMS)
    except strict_json.JsonProblem as problem:
        raise Refused(PROBLEM_CODES.get(problem.code, "body.json")) from None
    if not isinstance(document, dict):
        raise Refused("body.not_an_object")
    _hold_to(document, models)
    if "model" not in document:
        raise Refused("body.model")
    tools = document.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict):
            _hold_to(tool, models)
    stream = document.get("stream", False)
    if not isinstance(stream, (bool, type(None))) or (stream and api.assembly is None):
        raise Refused("body.stream")
    if document.get("background"):
        raise Refused("body.background")  # what goes on without an answer cannot be fetched here, nor judged
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def _hold_to(document: dict[str, Any], models: tuple[str, ...]) -> None:
    """Hold an object to the declared models. Some servers take a key in capitals for the same key."""
    for name in document:
        plain = name.casefold()
        if plain in _NOT_PASSED or (plain == "model" and name != "model"):
            raise Refused("body.routing")
    if "model" in document:
        document["model"] = _declared(document["model"], models)


def _declared(value: Any, models: tuple[str, ...]) -> str:
    for name in (value, value.removeprefix(_ROUTER_PREFIX)) if isinstance(value, str) else ():
        if name in models:
            return str(name)
    raise Refused("body.model")
