"""Endpoint, agent and our own fault never trade places, over any conversation.

An endpoint says one thing after another and an agent echoes it, mixed with what it makes up. Whoever did something is
known, since it was generated; the gateway's functions, its ledger and the classifier must name no other.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.reading.rewards import Reward, RewardState
from evidence.trial.classify import classify_trial
from evidence.trial.endpoint import endpoint_facts
from evidence.trial.facts import AgentFacts
from runs.documents.ledger import read_ledger
from runs.images.gateway.model_gateway import policy
from runs.images.gateway.model_gateway.config import parse_config
from runs.images.gateway.model_gateway.ledger import Entry, Ledger
from runs.images.gateway.model_gateway.policy import Refused
from runs.images.gateway.model_gateway.said import Said
from runs.images.gateway.model_gateway.server import Server
from runs.images.gateway.model_gateway.upstream import Answer
from runs.outcomes.codes import CODES, FailureClass
from tests.evidence.trial_facts import PASSING
from tests.gateway.bodies import ALIAS, MAX_TOKENS, completion, encoded
from tests.gateway.echoing import echoed, results
from tests.gateway.process import configuration

CONFIG = parse_config(json.dumps(configuration("http://127.0.0.1:1/v1")).encode())
DECLARED = policy.Declared(ALIAS, MAX_TOKENS)
OF_THE_ENDPOINT = {FailureClass.AUTHENTICATION, FailureClass.ROUTING, FailureClass.SERVING_RUNTIME}


@dataclass(frozen=True)
class Word:
    """An answer of the endpoint. `good` says that it is a completion, `overflow` that the window is too small."""

    status: int
    body: bytes
    good: bool = False
    overflow: bool = False


texts = st.text(max_size=30)
ids = st.none() | st.sampled_from(["", "c1", "i" * 900, 'ü\n\0"<|x|>']) | texts
vendor = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(
    st.sampled_from(["extra_content", "reasoning", "reasoning_content", "thought_signature", "annotations"]), vendor
)
functions = st.fixed_dictionaries(
    {"name": st.sampled_from(["bash", "bash<|channel|>commentary", ""]) | texts, "arguments": texts | st.just({"a": 1})}
)
calls = st.builds(
    lambda identifier, function, extra: {"id": identifier, "type": "function", "function": function} | extra,
    ids, functions, extras,
)  # fmt: skip
thoughts = st.builds(lambda thought, text: f"<think>{thought}</think>{text}", texts, texts)
messages = st.builds(
    lambda content, made, extra: {"role": "assistant", "content": content, "tool_calls": made} | extra,
    st.none() | texts | thoughts, st.none() | st.lists(calls, max_size=2), extras,
)  # fmt: skip


def spoken(message: dict[str, Any], finish_reason: str | None) -> Word:
    body = completion(choices=[{"finish_reason": finish_reason, "message": message}])
    return Word(200, json.dumps(body).encode(), good=True)


good = st.builds(spoken, messages, st.sampled_from(["stop", "tool_calls", "length", "content_filter", None]))
bad = st.sampled_from(
    [
        Word(status, json.dumps(body).encode() if isinstance(body, dict) else body)
        for status, body in [
            (401, {}), (404, {}), (429, {}), (500, {}), (302, b""), (400, {"error": {"message": "maximum context"}}),
            (200, {"error": {"code": 429}}), (200, {"error": "no"}), (200, b""), (200, b"<html>"), (200, b"[]"),
            (200, b"data: {}"), (200, {}), (200, completion(model="other")), (200, completion(choices=[])),
        ]
    ]
)  # fmt: skip
overflows = st.sampled_from(
    [
        Word(status, json.dumps({"error": error}).encode(), overflow=True)
        for status, error in [
            (400, {"code": "context_length_exceeded"}), (413, {"type": "exceed_context_size_error"}),
            (200, {"code": "context_length_exceeded"}),
        ]
    ]
)  # fmt: skip
# What an agent makes up: half of it is no message at all.
invented = messages | st.dictionaries(texts, vendor, max_size=3).map(lambda made: {"role": "assistant"} | made)


@dataclass(frozen=True)
class Turn:
    """The agent asks, with what it invents before its true echoes or without; the endpoint answers."""

    answer: Word
    invents: dict[str, Any] | None = None


turns = st.lists(st.builds(Turn, good | bad | overflows, st.none() | invented), min_size=1, max_size=5)


@dataclass
class Conversation:
    """The gateway's functions one after another, as a connection uses them."""

    server: Server
    said: Said
    lines: list[bytes]
    ledger: Ledger

    def ask(self, asked: list[dict[str, Any]], answer: Word) -> tuple[list[Any] | None, bytes]:
        """What the endpoint heard, None when the request was refused, and what the agent got."""
        entry = Entry(trial=1)
        try:
            outgoing = policy.screen(encoded(messages=asked), DECLARED, self.said)
        except Refused as refused:
            entry.code = policy.own_fault(refused.code, self.said) or refused.code
            self.ledger.record(replace(entry, status=404), reached_endpoint=False)
            return None, b""
        entry.request_sha256 = "0" * 64
        reply = self.server._pass_on(Answer(answer.status, answer.body, True), entry, self.said)
        self.ledger.record(entry, reached_endpoint=True)
        return json.loads(outgoing)["messages"], reply.body


def conversation() -> Conversation:
    lines: list[bytes] = []
    ledger = Ledger(lines.append)
    ledger.open(CONFIG.run)
    return Conversation(Server(CONFIG, None, ledger, None), Said(), lines, ledger)  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None)
@given(turns, st.booleans(), st.sampled_from([RewardState.ONE, RewardState.ZERO]))
def test_nobody_is_charged_with_what_another_did(played: list[Turn], agent_fails: bool, reward: RewardState) -> None:
    talk = conversation()
    echoes: list[dict[str, Any]] = [{"role": "user", "content": "u"}]
    heard_answers: list[Word] = []
    own_words: list[dict[str, Any]] = []
    for number, turn in enumerate(played):
        asked = [*echoes, *([] if turn.invents is None else [turn.invents])]
        heard, got = talk.ask(asked, turn.answer)
        if heard is None:
            # Only what the agent invented can be refused here.
            assert turn.invents is not None
            heard, got = talk.ask(echoes, turn.answer)
        assert heard is not None
        heard_answers.append(turn.answer)
        sent_back = [message for message in heard if message["role"] == "assistant"]
        assert [_with_ids(mine, theirs) for mine, theirs in zip(own_words, sent_back, strict=False)] == sent_back[
            : len(own_words)
        ]
        if turn.answer.good:
            message = json.loads(got)["choices"][0]["message"]
            own_words.append(message)
            echo = echoed(message, f"made-up-{number}")
            echoes += [echo, *results(echo)]
    talk.ledger.close()
    report = read_ledger(b"".join(talk.lines))
    assert report.intact
    facts = endpoint_facts(report.trial(1))
    failures = [answer for answer in heard_answers if not answer.good and not answer.overflow]
    completions = [answer for answer in heard_answers if answer.good]
    assert (facts.completions, facts.failures, facts.incompatible) == (len(completions), len(failures), 0)
    assert facts.context_overflows == sum(answer.overflow for answer in heard_answers)
    result = classify_trial(
        replace(
            PASSING,
            endpoint=facts,
            agent=AgentFacts(ended=True, exit_code=int(agent_fails)),
            reward=Reward(reward),
        )
    )
    klass = CODES[result.code].klass
    died_of_it = agent_fails and heard_answers[-1] in failures
    if failures and (not completions or died_of_it):
        assert klass in OF_THE_ENDPOINT
    elif not completions:
        assert result.code == "invalid_evaluation.no_completion"
    else:
        assert result.reward == int(reward is RewardState.ONE)


def _with_ids(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """The endpoint's message with the ids that the agent gave to calls without one."""
    if not mine.get("tool_calls"):
        return mine
    paired = zip(mine["tool_calls"], theirs["tool_calls"], strict=True)
    return mine | {"tool_calls": [call | {"id": sent["id"]} if call["id"] is None else call for call, sent in paired]}
