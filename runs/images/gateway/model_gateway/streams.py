"""What a stream said in the end: the body that the same API would have answered without a stream. Pure.

So a stream is judged by the function that judges a body, and its usage, its end and its model are looked for in one
place. A stream without what its API ends one with was cut; an error event is an error inside a 2xx.
"""

import json
from collections.abc import Callable
from typing import Any

from . import completion, strict_json
from .completion import Judgement
from .sse import Event

# An answer with more choices, calls or fields is passed on, but not put together any more.
_MOST_PARTS = 1_024
_DONE = b"[DONE]"


class Broken(Exception):
    """An event is not what its API sends, or the answer is larger than one that is judged."""


class _Text:
    """A text in pieces: put together once, however many they are."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = [*pieces]

    def whole(self) -> str:
        return "".join(self.pieces)


class Assembly:
    """One stream's answer so far; each API says how an event adds to it."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.ended = False
        self._error: Any = None
        self._broken = False
        self._left = completion.MAX_JUDGED_BYTES

    def add(self, event: Event) -> None:
        """Take over the next event; once the stream is broken or has failed, nothing is any more."""
        self._left -= len(event.data)
        if self._broken or self._error is not None:
            return
        try:
            self._add(event)
        except Broken:
            self._broken = True

    def judge(
        self, judge_body: Callable[[bytes, frozenset[str]], Judgement], accepted_models: frozenset[str]
    ) -> Judgement:
        """What the stream was, now that there is no more of it."""
        if self._error is not None:
            return completion.failed(self._error)
        try:
            body = b"" if self._broken else self.body()
        except Broken:
            self._broken = True
        if self._broken:
            return Judgement("malformed", "event")
        return judge_body(body, accepted_models) if self.ended else Judgement("malformed", "event_stream_cut")

    def body(self) -> bytes:
        """The answer as one body. Raises Broken."""
        return json.dumps(self.document, separators=(",", ":"), default=_Text.whole).encode("ascii")

    def _add(self, event: Event) -> None:
        if self._left < 0:
            raise Broken
        if event.data.strip() == _DONE:
            self._done()
            return
        try:
            data = strict_json.load_object(event.data, depth=completion.MAX_DEPTH, items=completion.MAX_ITEMS)
        except strict_json.JsonProblem:
            raise Broken from None
        if data.get("error") or data.get("type") == "error" or event.name == "error":
            self._error = data.get("error") or data
        else:
            self._take(data)

    def _done(self) -> None:
        """`[DONE]` ends a stream of chat completions; another API's may have it, and then it means nothing."""

    def _take(self, data: dict[str, Any]) -> None:
        raise NotImplementedError


class ChatStream(Assembly):
    """Chunks of a chat completion: pieces by choice, the usage in the last one, `[DONE]`."""

    def _done(self) -> None:
        self.ended = True

    def _take(self, data: dict[str, Any]) -> None:
        # The last name counts: some servers leave it empty in the first chunk.
        self.document |= {name: value for name, value in data.items() if name != "choices" and value}
        for piece in _objects(data.get("choices")):
            choice = _at(self.document.setdefault("choices", []), piece.get("index", 0))
            choice |= {name: piece[name] for name in ("finish_reason", "error") if piece.get(name) is not None}
            _merge(
                choice.setdefault("message", {"role": "assistant", "content": None}), _object(piece.get("delta") or {})
            )


class ResponseStream(Assembly):
    """Events of the Responses API, of which the last one holds the whole answer."""

    def _take(self, data: dict[str, Any]) -> None:
        match data.get("type"):
            case "response.completed" | "response.incomplete":
                self.document, self.ended = _object(data.get("response")), True
            case "response.failed":
                self._error = _object(data.get("response")).get("error") or data


class MessageStream(Assembly):
    """Events of an Anthropic message: its start, its blocks in pieces, its reason to stop with the usage, its end."""

    def __init__(self) -> None:
        super().__init__()
        self._inputs: dict[int, _Text] = {}

    def body(self) -> bytes:
        for index, pieces in self._inputs.items():
            text = pieces.whole()
            try:
                said = strict_json.load(text.encode("utf-8"), depth=completion.MAX_DEPTH, items=completion.MAX_ITEMS)
            except strict_json.JsonProblem:
                said = text  # a call that was cut within its arguments
            self._content()[index]["input"] = said
        return super().body()

    def _take(self, data: dict[str, Any]) -> None:
        match data.get("type"):
            case "message_start":
                self.document = {**_object(data.get("message")), "content": []}
            case "content_block_start":
                _at(self._content(), data.get("index")).update(_object(data.get("content_block")))
            case "content_block_delta":
                self._piece(data.get("index"), _object(data.get("delta")))
            case "message_delta":
                self.document |= _object(data.get("delta"))
                counts = {name: value for name, value in _object(data.get("usage") or {}).items() if value is not None}
                self.document["usage"] = {**_object(self.document.get("usage") or {}), **counts}
            case "message_stop":
                self.ended = True

    def _content(self) -> list[dict[str, Any]]:
        content = self.document.get("content")
        if not isinstance(content, list):
            raise Broken
        return content

    def _piece(self, index: Any, delta: dict[str, Any]) -> None:
        block = _at(self._content(), index)
        if isinstance(delta.get("partial_json"), str):
            self._inputs.setdefault(index, _Text()).pieces.append(delta["partial_json"])
        for name in ("text", "thinking", "signature"):
            if name in delta:
                block[name] = _joined(block.get(name), delta[name])


def _merge(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a chat delta: texts and lists grow, calls grow by their index, anything else stands as it came last."""
    for name, value in delta.items():
        if value is None:
            continue
        if name == "tool_calls":
            for piece in _objects(value):
                _merge_call(_at(message.setdefault("tool_calls", []), piece.get("index", 0)), piece)
        elif name == "role":
            message[name] = value or "assistant"
        elif isinstance(value, str):
            message[name] = _joined(message.get(name), value)
        elif isinstance(value, list):
            _list(message.setdefault(name, [])).extend(value)
        else:
            message[name] = value
    if len(message) > _MOST_PARTS:
        raise Broken


def _merge_call(call: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name == "function" and value is not None:
            function, said = call.setdefault("function", {}), _object(value)
            function["name"] = function.get("name") or said.get("name")
            function["arguments"] = _joined(function.get("arguments"), said.get("arguments") or "")
        elif name != "index" and value is not None:
            call[name] = call.get(name) or value


def _joined(before: Any, text: Any) -> _Text:
    if isinstance(before, str):
        before = _Text(before)
    if not isinstance(text, str) or not isinstance(before, (_Text, type(None))):
        raise Broken
    if before is None:
        return _Text(text)
    before.pieces.append(text)
    return before


def _at(items: list[dict[str, Any]], index: Any) -> dict[str, Any]:
    """The item of that number, which may be the next one that there is not yet."""
    if type(index) is not int or not 0 <= index <= min(len(items), _MOST_PARTS):
        raise Broken
    if index == len(items):
        items.append({})
    return items[index]


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Broken
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Broken
    return value


def _objects(value: Any) -> list[dict[str, Any]]:
    return [_object(item) for item in _list(value or [])]
