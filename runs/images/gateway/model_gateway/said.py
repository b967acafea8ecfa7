"""What the endpoint said to a trial, kept as it was said, so that an agent's echo of it goes back whole.

Clients drop or rename what they do not know of a message (a signature, reasoning), and some models answer only when
that comes back. So an assistant's message that an agent sends is looked up by what it says: its text and its calls with
their ids, names and arguments. One that the endpoint said goes out as the endpoint said it, as often as it was said and
no oftener; nothing else of the agent's message is used.
"""

import json
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from .completion import NotSpoken, Spoken, message_digest, spoken_of

# Compressed; as much as a request's body of 4 MiB can hold, unless there are many trials.
MAX_KEPT_BYTES = 2 * 1024 * 1024
MAX_KEPT_BYTES_OF_ALL = 64 * 1024 * 1024
# litellm takes a leading block of thoughts out of the text.
_THOUGHTS = re.compile(r"<(?:think|thinking)>.*?</(?:think|thinking)>(.*)", re.DOTALL)


class NotKept(Exception):
    """The endpoint said this message with more than can be told from its echo, and there was no room to keep it."""


@dataclass(frozen=True)
class _Message:
    """A message of the endpoint: the ids of its calls, and itself as compressed JSON, or None when not kept."""

    ids: tuple[str | None, ...]
    whole: bytes | None


class Said:
    """The assistant's messages of one trial. `bytes`, `items` and `messages` are what it takes to echo them all."""

    def __init__(self, trials: int = 1) -> None:
        self.bytes = self.items = self.messages = 0
        self._messages: dict[str, list[_Message]] = defaultdict(list)
        self._room = min(MAX_KEPT_BYTES, MAX_KEPT_BYTES_OF_ALL // trials)

    def keep(self, message: dict[str, Any], spoken: Spoken) -> None:
        """Remember the message of a completion, and what it says."""
        text, calls = spoken
        written = json.dumps({"role": "assistant"} | message, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        self.bytes += len(written)
        self.items += _items(message)
        self.messages += 1 + len(calls)
        whole = zlib.compress(written, 1)
        kept = len(whole) <= self._room
        self._room -= len(whole) if kept else 0
        said = _Message(tuple(call[0] for call in calls), whole if kept else None)
        thoughts = _THOUGHTS.match(text)
        for form in {text} if thoughts is None else {text, thoughts[1]}:
            self._messages[_key((form, calls))].append(said)

    def echoes(self) -> "Echoes":
        """For one request: what of it is the endpoint's."""
        return Echoes(self._messages)


class Echoes:
    """The messages that one request may echo, each once."""

    def __init__(self, messages: dict[str, list[_Message]]) -> None:
        self._messages = messages
        self._taken: set[int] = set()

    def own(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The endpoint's own message that this one echoes; None when the endpoint said no such thing.

        A call that the endpoint gave no id keeps the agent's, for its result is sent with that one. Raises NotKept.
        """
        try:
            text, calls = spoken_of(message)
        except NotSpoken:
            return None
        for said in self._messages.get(_key((text, calls)), ()):
            if id(said) not in self._taken and all(
                own in (None, call[0]) for own, call in zip(said.ids, calls, strict=True)
            ):
                self._taken.add(id(said))
                return _own(said, calls)
        return None


def _key(spoken: Spoken) -> str:
    """Ids are left out, for an agent makes one up where the endpoint gave none."""
    text, calls = spoken
    return message_digest(text, [[None, name, arguments] for _, name, arguments in calls])


def _own(said: _Message, calls: list[list[Any]]) -> dict[str, Any]:
    if said.whole is None:
        raise NotKept
    message: dict[str, Any] = json.loads(zlib.decompress(said.whole))
    for call, (identifier, _, _) in zip(message.get("tool_calls") or [], calls, strict=True):
        if call.get("id") is None:
            call["id"] = identifier
    return message


def _items(value: Any) -> int:
    """Values and keys, as a reader of JSON counts them."""
    found, pending = 0, [value]
    while pending:
        here = pending.pop()
        found += 1
        if isinstance(here, dict):
            found += len(here)
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)
    return found
