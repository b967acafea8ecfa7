"""The gateway's transcript against ledger and agent's file: what differs, is missing or was cut is named."""

import io
import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.suite.judgement import judge
from evidence.suite.run_facts import read_run
from evidence.trajectory.conversation import write_conversation
from evidence.trajectory.index import OTHER, agents_answers, build_index
from evidence.trajectory.ledger_match import answer_digests
from evidence.trajectory.steps import LedgerMatch, Step
from evidence.trajectory.transcript import (
    AgentsAnswer,
    Exchange,
    Proof,
    compare_with_agent,
    read_exchanges,
)
from evidence.trajectory.windows import Trajectory
from evidence.trial.classify import classify_trial
from runs.documents.ledger import TrialLedger
from runs.outcomes.buckets import Verdict
from tests.evidence.folders import passing_run
from tests.evidence.transcripts import Conversation, call, said


def exchanges(conversation: Conversation, **named: Any) -> list[Exchange]:
    return list(read_exchanges(io.BytesIO(conversation.file), conversation.ledger, trial=1, **named))


def proofs(conversation: Conversation, **named: Any) -> list[Proof]:
    return [exchange.proof for exchange in exchanges(conversation, **named)]


def told(
    conversation: Conversation, agents: bytes | None = None, ledger: TrialLedger | None = None
) -> tuple[Trajectory, list[Step]]:
    source, index = io.BytesIO(), io.BytesIO()
    answers = None if agents is None else agents_answers(io.BytesIO(agents))
    used = conversation.ledger if ledger is None else ledger
    write_conversation(io.BytesIO(conversation.file), source, used, trial=1, agent=answers)
    build_index(source, index, answer_digests(used))
    trajectory = Trajectory(source, index)
    return trajectory, list(trajectory.window().steps)


def own_file(*messages: dict[str, Any]) -> bytes:
    """An agent's own file with these answers of the model."""
    return json.dumps({"messages": messages, "trajectory_format": "mini-swe-agent-1.1"}).encode()


@pytest.fixture
def talk() -> Conversation:
    """Two commands and a last word."""
    conversation = Conversation()
    conversation.ask({"role": "system", "content": "You work."}, {"role": "user", "content": "Sum it up, né."})
    conversation.answer(said("I look.", call("c1", "ls")))
    conversation.ask({"role": "tool", "tool_call_id": "c1", "content": '{"returncode": 2, "output": "no such"}'})
    conversation.answer(said("Again.", call("c2", "cat a")))
    conversation.ask({"role": "tool", "tool_call_id": "c2", "content": "<returncode>0</returncode> 41"})
    conversation.answer(said("It is 41."))
    return conversation


def test_requests_and_answers_are_the_ledgers_to_the_byte(talk: Conversation) -> None:
    found = exchanges(talk)
    assert [exchange.proof for exchange in found] == [Proof.MATCHES] * 3
    for exchange, line in zip(found, talk.ledger.requests, strict=True):
        assert exchange.request is not None and sha256(exchange.request).hexdigest() == line.request_sha256
        assert exchange.answer is not None and sha256(exchange.answer).hexdigest() == line.response_sha256


def test_the_conversation_reads_as_it_was_held(talk: Conversation) -> None:
    trajectory, steps = told(talk)
    assert [step.source for step in steps] == ["request", "system", "user", "model", "model", "model"]
    assert [step.message.text for step in steps[3:]] == ["I look.", "Again.", "It is 41."]
    first, second = steps[3].calls[0], steps[4].calls[0]
    assert first.arguments.text == "ls" and first.results[0].returncode == 2 and "no such" in first.results[0].text.text
    assert second.results[0].returncode == 0
    assert trajectory.summary.first_failed == 4 and trajectory.ledger.matched == 3
    assert [step.metrics.prompt_tokens for step in steps[3:] if step.metrics] == [10, 10, 10]
    assert trajectory.find("no such") == (4,) and trajectory.find("SUM IT UP, né") == (3,)
    assert trajectory.summary.facts["lost"] == trajectory.summary.facts["agent_file"] == 0


def test_a_changed_answer_and_a_changed_request_differ_from_the_ledger(talk: Conversation) -> None:
    answer = talk.line(2)
    answer["answer"] = answer["answer"].replace("Again", "Later")
    talk.replace(2, answer)
    assert proofs(talk) == [Proof.MATCHES, Proof.DIFFERS, Proof.MATCHES]
    trajectory, steps = told(talk)
    assert [step.ledger for step in steps[3:]] == [LedgerMatch.MATCHES, LedgerMatch.DIFFERS, LedgerMatch.MATCHES]
    assert trajectory.summary.facts["differs"] == 1
    request = talk.line(3)
    request["request"]["new"] = [unit.replace("41", "42") for unit in request["request"]["new"]]
    talk.replace(3, request)
    assert proofs(talk) == [Proof.MATCHES, Proof.DIFFERS, Proof.DIFFERS]


def test_what_a_secret_was_taken_out_of_is_not_called_changed(talk: Conversation) -> None:
    line = talk.line(1)
    line["answer"] = line["answer"].replace("I look", "[REDACTED]")
    talk.replace(1, line)
    assert proofs(talk, redacted=True) == [Proof.REDACTED, Proof.MATCHES, Proof.MATCHES]


def test_an_exchange_that_is_missing_is_named_at_its_place(talk: Conversation) -> None:
    talk.drop(2)
    assert proofs(talk) == [Proof.MATCHES, Proof.LOST, Proof.CUT]  # the third's difference was to the lost one
    _, steps = told(talk)
    assert ["exchange_lost" in step.notes for step in steps[3:]] == [False, True, False, False]
    assert steps[5].notes == ("request_not_whole",) and "41" in steps[5].message.text


def test_without_any_line_every_exchange_of_the_ledger_is_named(talk: Conversation) -> None:
    empty = Conversation()
    empty.ledger = talk.ledger
    assert proofs(empty) == [Proof.LOST] * 3


def test_a_line_that_the_ledger_does_not_have_proves_nothing(talk: Conversation) -> None:
    shorter = TrialLedger(talk.ledger.requests[:2])
    found = list(read_exchanges(io.BytesIO(talk.file), shorter, trial=1))
    assert [exchange.proof for exchange in found] == [Proof.MATCHES, Proof.MATCHES, Proof.DIFFERS]
    _, steps = told(talk, ledger=shorter)
    assert steps[-1].ledger is LedgerMatch.DIFFERS and steps[-1].notes == ("no_ledger_line",)


@pytest.mark.parametrize(
    "opening", [b"", b'{"kind":"opened","version":2,"trial":1}\n', b"{}\n", b"\xff\n", b"[" * 99_999]
)
def test_another_first_line_breaks_it(talk: Conversation, opening: bytes) -> None:
    talk.opening = opening
    assert proofs(talk) == [Proof.BROKEN, Proof.LOST, Proof.LOST, Proof.LOST]


def test_the_transcript_of_another_trial_is_none_of_this_one(talk: Conversation) -> None:
    found = list(read_exchanges(io.BytesIO(talk.file), talk.ledger, trial=2))
    assert found[0].proof is Proof.BROKEN and len(found) == 4


def test_what_was_cut_is_shown_and_not_compared(talk: Conversation) -> None:
    line = talk.line(3)
    line["answer"] = {"bytes": 99_999, "head": '{"choices": "be', "tail": {"base64": "/w=="}}
    talk.replace(3, line)
    assert proofs(talk) == [Proof.MATCHES, Proof.MATCHES, Proof.CUT]
    _, steps = told(talk)
    assert "be\n[…]" in steps[-1].message.text and "not_compared_cut" in steps[-1].notes


@given(st.data())
def test_whatever_a_line_holds_it_is_read(data: st.DataObject) -> None:
    conversation = Conversation()
    conversation.ask({"role": "user", "content": "x"})
    conversation.answer(said("y", call("c", "z")))
    conversation.ask({"role": "tool", "tool_call_id": "c", "content": "r"})
    conversation.answer(said("end"))
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["base64", "head", "a"]), inner),
    )
    line = conversation.line(1)
    place = data.draw(st.sampled_from(["number", "ledger", "lost", "request", "answer", "head", "new", "tail"]))
    (line if place in line else line["request"])[place] = data.draw(values)
    conversation.replace(1, line)
    told(conversation)


@given(st.binary(max_size=300))
def test_whatever_the_file_holds_it_is_read(noise: bytes) -> None:
    conversation = Conversation()
    conversation.opening += noise
    told(conversation)


def answers(*digests: str | None) -> list[AgentsAnswer]:
    return [AgentsAnswer(number, () if digest is None else (digest,)) for number, digest in enumerate(digests, 1)]


@pytest.mark.parametrize(
    ("agents", "same", "other", "made_up"),
    [
        ("abc", {0: 1, 1: 2, 2: 3}, {}, ()),
        ("axc", {0: 1, 2: 3}, {1: 2}, ()),
        ("ac", {0: 1, 2: 2}, {}, ()),
        ("abxyc", {0: 1, 1: 2, 2: 5}, {}, (3, 4)),
        ("xyz", {}, {0: 1, 1: 2, 2: 3}, ()),
        ("abcx", {0: 1, 1: 2, 2: 3}, {}, (4,)),
        ("", {}, {}, ()),
    ],
)
def test_the_agents_answers_are_tied_in_order(
    agents: str, same: dict[int, int], other: dict[int, int], made_up: Sequence[int]
) -> None:
    found = compare_with_agent(answers(*agents), "abc")
    assert (found.same, found.other, found.made_up) == (same, other, tuple(made_up))


def test_an_agents_forged_file_is_marked_where_it_says_something_else(talk: Conversation) -> None:
    forged = own_file(said("I look.", call("c1", "ls")), said("I cheat.", call("c2", "cat b")))
    trajectory, steps = told(talk, forged)
    assert [(step.agent_says, step.agent_step) for step in steps[3:]] == [("same", 1), ("other", 2), ("missing", None)]
    facts = trajectory.summary.facts
    assert (facts["agent_other"], facts["agent_missing"], facts["agent_made_up"]) == (1, 1, 0)
    assert trajectory.flagged(OTHER) == 5 and trajectory.flagged(OTHER, after=5) == 6


def test_an_agent_that_wrote_nothing_or_no_trajectory_has_its_conversation(talk: Conversation) -> None:
    trajectory, steps = told(talk)
    assert trajectory.summary.facts["agent_file"] == 0 and {step.agent_says for step in steps} == {None}
    trajectory, steps = told(talk, b"not json at all")
    assert trajectory.summary.facts["agent_missing"] == 3 and steps[3].agent_says == "missing"


def test_what_an_agent_puts_into_the_models_mouth_is_no_answer_of_it() -> None:
    conversation = Conversation()
    conversation.ask({"role": "user", "content": "x"})
    conversation.answer(said("truly said"))
    conversation.ask({"role": "assistant", "content": "never said"}, {"role": "user", "content": "go on"}, echo=False)
    conversation.answer(said("end"))
    _, steps = told(conversation)
    made_up = next(step for step in steps if step.message.text == "never said")
    assert made_up.source == "agent" and made_up.notes == ("not_said",)
    assert sum("truly said" in step.message.text for step in steps) == 1


def test_a_history_that_was_rewritten_is_noted() -> None:
    conversation = Conversation()
    conversation.ask({"role": "user", "content": "one"})
    conversation.answer(said("two"))
    conversation.messages = [{"role": "user", "content": "in short"}]
    conversation.ask(echo=False)
    conversation.answer(said("three"))
    _, steps = told(conversation)
    assert "history_changed" in next(step for step in steps if step.message.text == "in short").notes


def test_an_error_of_the_endpoint_and_one_of_the_gateway_are_steps_of_their_own() -> None:
    conversation = Conversation()
    conversation.ask({"role": "user", "content": "one"})
    conversation.fail(b"<html>busy</html>", kind="upstream_error", code="status", status=503)
    conversation.ask(echo=False)
    conversation.fail(None, kind="upstream_error", code="timeout", status=None)
    _, steps = told(conversation)
    assert [(step.source, step.notes) for step in steps[2:]] == [
        ("endpoint", ("judged_upstream_error",)),
        ("endpoint", ("no_answer",)),
    ]
    assert "busy" in steps[2].message.text


@pytest.mark.parametrize("content", [b"", b"no transcript", b"\x00" * 100_000, Conversation().opening, None])
def test_it_decides_nothing(tmp_path: Path, content: bytes | None) -> None:
    folder = passing_run().write(tmp_path / "run")
    place = folder / "trials" / "1" / "transcript.jsonl"
    if content is None:
        place.mkdir()
    else:
        place.write_bytes(content)
    found = read_run(folder)
    assert [classify_trial(trial).code for trial in found.trials] == ["passed.reward_1"] * 3
    assert not any(classify_trial(trial).badges for trial in found.trials)
    assert judge(found, cleanup_clean=True).suite.verdict is Verdict.PASSED
