"""A transcript and its ledger as gateway and worker write them, from a conversation that a test holds."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from runs.documents.ledger import LedgerReport, TrialLedger, message_digest, read_ledger
from runs.engine.network.transcript import _encoded, _exchange
from runs.images.gateway.model_gateway.apis import APIS
from runs.images.gateway.model_gateway.config import Run
from runs.images.gateway.model_gateway.ledger import Entry, Ledger
from runs.images.gateway.model_gateway.sse import EventReader
from runs.images.gateway.model_gateway.transcript import Differences


def call(call_id: str, command: str) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": arguments}}


def said(content: str | None, *calls: dict[str, Any]) -> dict[str, Any]:
    """A message of the model."""
    return {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {})


@dataclass
class Conversation:
    """One trial's; `ledger` is what was said so far, `file` its transcript."""

    trial: int = 1
    opening: bytes = b'{"kind":"opened","version":1,"trial":1}\n'
    messages: list[dict[str, Any]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    ledger: TrialLedger = field(default_factory=TrialLedger)

    def __post_init__(self) -> None:
        self._written: list[bytes] = []
        self._ledger = Ledger(self._written.append)
        self._ledger.open(Run("0" * 32, "1" * 64, "2" * 32))
        self._differences = Differences()
        self._number = 0
        self._echo: dict[str, Any] | None = None
        self._sent = b""

    @property
    def file(self) -> bytes:
        return self.opening + b"".join(self.lines)

    @property
    def whole_ledger(self) -> bytes:
        self._ledger.close()
        return b"".join(self._written)

    def ask(self, *messages: dict[str, Any], echo: bool = True) -> None:
        """The next request; with `echo` the model's last message stands before `messages`, as agents send it."""
        self.messages = [*self.messages, *([self._echo] if echo and self._echo else []), *messages]
        body = {"model": "m", "messages": self.messages, "max_tokens": 512}
        self._sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    def answer(self, message: dict[str, Any]) -> None:
        self._echo = message
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        body = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
        digest = message_digest(message["content"], calls)
        self._keep(json.dumps(body).encode(), kind="ok", status=200, message_sha256=digest, prompt_tokens=10,
                   completion_tokens=5)  # fmt: skip

    def exchange(self, api: str, request: dict[str, Any], body: bytes, *, streamed: bool = False) -> None:
        """One of a pass-through API, judged as the gateway does it."""
        self._sent = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()
        asked, accepted = APIS[api], frozenset(["m"])
        if streamed and asked.assembly is not None:
            assembly, reader = asked.assembly(), EventReader(len(body))
            for block in (*reader.feed(body), *reader.finish()):
                if block.event is not None:
                    assembly.add(block.event)
            judgement = assembly.judge(asked.judge, accepted)
        else:
            judgement = asked.judge(body, accepted)
        self._keep(
            body, api=api, status=200, kind=judgement.kind, code=judgement.code, flags=judgement.flags,
            prompt_tokens=judgement.prompt_tokens, completion_tokens=judgement.completion_tokens,
            message_sha256=judgement.message_sha256,
        )  # fmt: skip

    def fail(self, body: bytes | None, **entry: Any) -> None:
        self._echo = None
        self._keep(body, **entry)

    def _keep(self, body: bytes | None, **named: Any) -> None:
        entry = Entry(trial=self.trial, request_sha256=sha256(self._sent).hexdigest(), **named)
        entry.response_sha256 = None if body is None else sha256(body).hexdigest()
        line = self._ledger.record(entry, reached_endpoint=True)
        assert line is not None
        difference = self._differences.next(self._sent)
        record = {
            "number": self._number, "ledger": {"seq": line["seq"], "trial": self.trial}, "lost": False,
            "withheld": False, "head": difference.head, "tail": difference.tail,
            "new": [len(unit) for unit in difference.new], "answer": None if body is None else len(body),
        }  # fmt: skip
        texts = [*difference.new, *([] if body is None else [body])]
        self.lines.append(_encoded(_exchange(record, texts, 64 * 1024 * 1024)))
        self._number += 1
        report: LedgerReport = read_ledger(b"".join(self._written))
        self.ledger = report.trial(self.trial)

    def line(self, place: int) -> dict[str, Any]:
        """The exchange at a 1-based place."""
        document: dict[str, Any] = json.loads(self.lines[place - 1])
        return document

    def replace(self, place: int, document: dict[str, Any]) -> None:
        self.lines[place - 1] = json.dumps(document).encode() + b"\n"

    def drop(self, place: int) -> None:
        del self.lines[place - 1]
