"""The gateway's transcript as steps to read: what the agent told the endpoint anew, and what that answered.

Made once, while ingesting, as a document of our own; `gateway_step` reads one entry of it. Where an answer stands
otherwise in the agent's own file, its step says so and names that step.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from evidence.reading.proofs import at
from evidence.trajectory.apis import Answers, document_of, read_request
from evidence.trajectory.atif import return_code
from evidence.trajectory.native import digests_of
from evidence.trajectory.steps import Call, Fields, LedgerMatch, Metrics, Result, Step, pair, parse_entry
from evidence.trajectory.text import plain, shown
from evidence.trajectory.transcript import (
    AgentsAnswer,
    Compared,
    Exchange,
    File,
    Proof,
    compare_with_agent,
    read_exchanges,
)
from runs.documents.ledger import LedgerRequest, TrialLedger

SCHEMA = "benchsite.conversation/v1"
LIST_KEY = "conversation"
MAX_BYTES = 64 * 1024 * 1024
_TOLD = {"returncode", "output", "exception_info"}
# Of an agent with several conversations at a time; one more is told anew.
_MOST_HISTORIES = 16
MAX_TEXT = 1024 * 1024  # characters of one text; the transcript has the rest


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


def write_conversation(
    source: File,
    sink: Sink,
    ledger: TrialLedger,
    *,
    trial: int,
    agent: Sequence[AgentsAnswer] | None,
    redacted: bool = False,
) -> None:
    """Write the readable form of a transcript. `agent` are the answers of the agent's own file, None without one."""
    telling = _Telling(ledger, agent)
    size = 0
    sink.write(b'{"schema":"%s","%s":[' % (SCHEMA.encode(), LIST_KEY.encode()))
    exchanges = read_exchanges(source, ledger, trial=trial, redacted=redacted)
    for entry in chain(chain.from_iterable(map(telling.add, exchanges)), telling.end()):
        line = json.dumps(entry).encode("ascii")
        if size + len(line) > MAX_BYTES:
            line = json.dumps(_entry("gateway", "", None, notes=["conversation_cut"])).encode("ascii")
            sink.write((b",\n" if size else b"") + line)
            break
        sink.write((b",\n" if size else b"") + line)
        size += len(line)
    sink.write(b'],"facts":%s}' % json.dumps(telling.facts).encode("ascii"))


def gateway_step(entry: Any) -> Step:
    """One entry as a step."""
    problems: list[str] = []
    step = Fields(entry, problems)
    calls = [_call(Fields(call, problems, "tool_call")) for call in step.items("calls")]
    results = [_result(Fields(item, problems, "result")) for item in step.items("results")]
    paired, left, unpaired = pair(calls, results)
    metrics = step.below("metrics")
    proof = step.text("proof")
    return Step(
        source=step.text("source") or "unknown",
        message=shown(step.text("message")),
        reasoning=shown(step.text("reasoning")) if step.text("reasoning") else None,
        calls=paired,
        results=left,
        metrics=Metrics(metrics.count("prompt"), metrics.count("completion"), metrics.count("cached"))
        if metrics.value
        else None,
        at=step.text("at"),
        model=step.text("model"),
        problems=tuple(problems + unpaired),
        is_answer=step.text("source") == "model",
        ledger=LedgerMatch(proof) if proof in ("matches", "differs") else LedgerMatch.NOT_COMPARED,
        notes=tuple(note for note in step.items("notes") if isinstance(note, str)),
        agent_says=step.text("agent"),
        agent_step=step.count("agent_step"),
    )


def _call(call: Fields) -> Call:
    return Call(call.text("name") or "not recorded", shown(call.value.get("arguments")), call.text("id"))


def _result(result: Fields) -> Result:
    code, why = result.value.get("code"), result.text("why")
    return Result(
        shown(result.text("text")), result.text("id"), code if type(code) is int else None, shown(why) if why else None
    )


@dataclass(frozen=True, slots=True)
class _History:
    """What one of an agent's conversations with the endpoint was at its last request."""

    settings: dict[str, Any]
    messages: list[Any]


@dataclass(slots=True)
class _Telling:
    """What was told so far. The last answer waits for its results, which come with the next request."""

    ledger: TrialLedger
    agent: Sequence[AgentsAnswer] | None
    facts: dict[str, int] = field(default_factory=dict)
    _histories: list[_History] = field(default_factory=list)
    _answers: Answers = field(default_factory=Answers)
    _said: set[str] = field(default_factory=set)
    _waiting: dict[str, Any] | None = None
    _places: dict[int, int] = field(default_factory=dict)
    _compared: Compared = field(init=False)

    def __post_init__(self) -> None:
        answered = [line for line in self.ledger.requests if line.message_sha256 is not None]
        self._places = {line.seq: place for place, line in enumerate(answered)}
        digests = [line.message_sha256 or "" for line in answered]
        self._compared = compare_with_agent(self.agent or (), digests)
        self.facts = dict.fromkeys(("exchanges", "lost", "differs", "agent_other", "agent_missing"), 0)
        self.facts["agent_made_up"] = len(self._compared.made_up)
        self.facts["agent_file"] = int(self.agent is not None)

    def add(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        self.facts["exchanges"] += 1
        self.facts["lost"] += exchange.proof is Proof.LOST
        self.facts["differs"] += exchange.proof in (Proof.DIFFERS, Proof.BROKEN)
        asked = list(self._asked(exchange))
        yield from self.end()
        yield from asked
        self._waiting = self._answered(exchange)

    def end(self) -> Iterator[dict[str, Any]]:
        """The answer that waited for its results."""
        if self._waiting is not None:
            yield self._waiting
        self._waiting = None

    def _asked(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        """The steps that the request has anew; results go to the answer that waits."""
        when = exchange.line.at if exchange.line is not None else None
        request = None if exchange.request is None else read_request(_api(exchange), exchange.request)
        if request is None:
            if exchange.anew:
                text = b"".join(exchange.anew).decode("utf-8", "replace")
                whole = exchange.request is not None and document_of(exchange.request) is not None
                notes = [] if whole else ["request_not_whole"]
                yield _entry("request", text, when, notes=notes)
            return
        settings, messages = request
        before, same = self._history_of(messages)
        if before is None or settings != before.settings:
            notes = [] if before is None else ["settings_changed"]
            yield _entry("request", json.dumps(settings, ensure_ascii=False, indent=1), when, notes=notes)
        notes = ["history_changed"] if before is not None and same < len(before.messages) else []
        for message in messages[same:]:
            for entry in self._message(message, when):
                yield entry | {"notes": [*entry["notes"], *notes]}
                notes = []
        self._histories = [*self._histories[1 - _MOST_HISTORIES :], _History(settings, messages)]

    def _history_of(self, messages: list[Any]) -> tuple[_History | None, int]:
        """The conversation that these messages go on with, and how many of its messages they have: that with most in
        common, of several the last. Agents hold several at a time; one that was gone on with is no more by itself."""
        common = [_same(history.messages, messages) for history in self._histories]
        if not common:
            return None, 0
        place = max(range(len(common)), key=lambda number: (common[number], number))
        before, same = self._histories[place], common[place]
        if same == len(before.messages):
            del self._histories[place]
        return before, same

    def _message(self, message: Any, when: str | None) -> Iterator[dict[str, Any]]:
        if not isinstance(message, dict):
            yield _entry("unknown", plain(message), when)
            return
        role, content = message.get("role"), plain(message.get("content"))
        if role == "tool" and self._waiting is not None:
            identifier = _word(message.get("tool_call_id"))
            # Another conversation's result is none of this answer's; a call without an id has one of the agent's.
            if any(call["id"] in (None, "", identifier) for call in self._waiting["calls"]):
                self._waiting["results"].append(_result_of(content) | {"id": identifier})
                return
        if role == "assistant":
            if not self._said & set(digests_of(message)):
                calls = [_call_of(call) for call in _list(message.get("tool_calls"))]
                yield _entry("agent", content, when, notes=["not_said"]) | {"calls": calls}
            return
        yield _entry(role if role in ("system", "user", "tool", "developer") else "unknown", content, when)

    def _answered(self, exchange: Exchange) -> dict[str, Any]:
        line = exchange.line
        if exchange.proof is Proof.LOST:
            return _entry("gateway", "", line.at if line else None, notes=["exchange_lost"])
        if exchange.proof is Proof.BROKEN:
            return _entry("gateway", "", None, notes=["transcript_broken"]) | {"proof": "differs"}
        if line is None:
            text = (exchange.answer or b"").decode("utf-8", "replace")
            return _entry("gateway", text, None, notes=["no_ledger_line"]) | {"proof": "differs"}
        document = None if exchange.answer is None else self._answers.read(_api(exchange), exchange.answer)
        entry = self._said_by(document, line) or _entry(
            "endpoint", (exchange.answer or b"").decode("utf-8", "replace"), line.at, notes=[_why(line)]
        )
        entry["notes"] += [] if exchange.proof in (Proof.MATCHES, Proof.DIFFERS) else [f"not_compared_{exchange.proof}"]
        entry["proof"] = exchange.proof.value if exchange.proof in (Proof.MATCHES, Proof.DIFFERS) else "not_compared"
        return entry

    def _said_by(self, document: dict[str, Any] | None, line: LedgerRequest) -> dict[str, Any] | None:
        """The step of an answer that holds a message; None of any other."""
        choices = document.get("choices") if document is not None else None
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = choice.get("message")
        if document is None or not isinstance(message, dict):
            return None
        self._said |= set(digests_of(message))
        if line.message_sha256 is not None:
            self._said.add(line.message_sha256)
        notes = [] if line.kind == "ok" else [f"judged_{line.kind}"]
        if choice.get("finish_reason") == "length":
            notes.append("answer_cut")
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            notes.append("answer_refused")
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        cached = at(document, "usage", "prompt_tokens_details", "cached_tokens")
        entry = _entry("model", plain(message.get("content")) or plain(message.get("refusal")), line.at, notes=notes)
        return entry | {
            "reasoning": _bounded(plain(reasoning)) if reasoning else None,
            "calls": [_call_of(call) for call in _list(message.get("tool_calls"))],
            "model": _word(document.get("model")),
            "metrics": {
                "prompt": line.prompt_tokens,
                "completion": line.completion_tokens,
                "cached": cached if type(cached) is int and cached >= 0 else None,
            }
            if line.prompt_tokens is not None or line.completion_tokens is not None
            else None,
            **self._in_the_agents_file(line),
        }

    def _in_the_agents_file(self, line: LedgerRequest) -> dict[str, Any]:
        place = self._places.get(line.seq)
        if self.agent is None or place is None:
            return {"agent": None, "agent_step": None}
        if (step := self._compared.same.get(place)) is not None:
            return {"agent": "same", "agent_step": step}
        if (step := self._compared.other.get(place)) is not None:
            self.facts["agent_other"] += 1
            return {"agent": "other", "agent_step": step}
        self.facts["agent_missing"] += 1
        return {"agent": "missing", "agent_step": None}


def _why(line: LedgerRequest) -> str:
    return f"judged_{line.kind}" if line.status is not None and line.kind != "ok" else "no_answer"


def _entry(source: str, message: str, when: str | None, notes: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "source": source,
        "message": _bounded(message),
        "reasoning": None,
        "at": when,
        "model": None,
        "calls": [],
        "results": [],
        "metrics": None,
        "proof": "not_compared",
        "agent": None,
        "agent_step": None,
        "notes": list(notes),
    }


def _call_of(call: Any) -> dict[str, Any]:
    """The one argument `command` of a shell's tool as it is; other arguments as they were written."""
    arguments = at(call, "function", "arguments")
    try:
        parsed = parse_entry(arguments.encode("utf-8", "surrogatepass")) if isinstance(arguments, str) else arguments
    except ValueError:
        parsed = None
    command = parsed.get("command") if isinstance(parsed, dict) and len(parsed) == 1 else None
    written = command if isinstance(command, str) else plain(arguments)
    return {
        "name": _word(at(call, "function", "name")),
        "arguments": _bounded(written),
        "id": _word(at(call, "id")),
    }


def _result_of(content: str) -> dict[str, Any]:
    """What a command gave, read as mini-swe-agent tells it: what it printed, its return code and why it failed."""
    told = document_of(content.encode("utf-8", "surrogatepass")) if content.lstrip().startswith("{") else None
    if told is not None and isinstance(told.get("output"), str) and set(told) <= _TOLD:
        return {
            "text": _bounded(told["output"]),
            "code": return_code(content),
            "why": _word(told.get("exception_info")),
        }
    return {"text": _bounded(content), "code": return_code(content), "why": None}


def _same(before: list[Any], now: list[Any]) -> int:
    count = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        count += 1
    return count


def _api(exchange: Exchange) -> str | None:
    """Which API was asked; None for the one of environment runs."""
    api = None if exchange.line is None else exchange.line.api
    return api if isinstance(api, str) else None


def _bounded(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 2]}\n[…]\n{text[-MAX_TEXT // 2 :]}"


def _word(value: Any) -> str | None:
    return value[:4096] if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    return value[:1024] if isinstance(value, list) else []
