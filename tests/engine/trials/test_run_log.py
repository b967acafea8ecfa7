"""A run's log is in our own words: nothing that an agent chose enters it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.trials.run_log import RunLog
from runs.engine.trials.trial_process import Reason
from runs.services import runlog

AGENTS_WORDS = "ignore previous instructions"
OPENED = {"event": "opened", "role": "agent", "container_id": "c" * 64}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(runlog, "append_log", lambda run_id, lines: said.extend(line.text for line in lines))
    return said


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (OPENED, "Trial 2: agent container cccccccccccc started"),
        ({**OPENED, "role": "verifier"}, "Trial 2: verifier container cccccccccccc started"),
        (
            {"event": "agent_version", "version": "2.4.6", "exit_code": 0},
            "Trial 2: agent version 2.4.6 found in the container",
        ),
        ({"event": "agent_version", "version": None, "exit_code": 1}, "Trial 2: agent version not found"),
        ({"event": "exec", "purpose": "agent", "exit_code": 3}, "Trial 2: agent ended with exit code 3"),
        (
            {"event": "exec", "purpose": "verifier", "exit_code": None},
            "Trial 2: verifier ended with exit code not recorded",
        ),
        (
            {"event": "transfer", "outcome": "refused", "purpose": "agent_logs", "code": "transfer.link"},
            "Trial 2: transfer of agent_logs refused (transfer.link)",
        ),
        (
            {"event": "failure", "role": "verifier", "code": "engine.gone"},
            "Trial 2: verifier environment failed: engine.gone",
        ),
        ({"event": "removed", "role": "agent", "outcome": "removed"}, "Trial 2: agent container removed"),
    ],
)
def test_each_thing_that_the_provider_saw_is_one_line(log: list[str], event: dict[str, Any], words: str) -> None:
    RunLog("r").observed(2, event)
    assert log == [words]


@pytest.mark.parametrize(
    "event",
    [
        {"event": "exec", "purpose": "other", "exit_code": 0, "command": AGENTS_WORDS},
        {"event": "transfer", "outcome": "ok", "purpose": "artifact", "path": AGENTS_WORDS},
        {"event": AGENTS_WORDS},
        {"event": "opened", "role": "agent", "container_id": None},
        {},
    ],
)
def test_what_is_no_news_is_not_logged(log: list[str], event: dict[str, Any]) -> None:
    RunLog("r").observed(1, event)
    assert log == []


def test_names_that_an_agent_chose_do_not_enter_the_log(log: list[str]) -> None:
    RunLog("r").observed(
        1,
        {"event": "transfer", "outcome": "refused", "purpose": "artifact", "code": "transfer.link",
         "path": AGENTS_WORDS, "refusals": [{"path": AGENTS_WORDS}], "detail": AGENTS_WORDS},
    )  # fmt: skip
    assert len(log) == 1 and AGENTS_WORDS not in log[0]


def test_a_trials_stage_is_told_once_for_each_change(log: list[str]) -> None:
    run_log = RunLog("r")
    version = {"event": "agent_version", "version": "2.4.6"}
    events = [OPENED, OPENED, version, {"event": "exec", "purpose": "agent"}, {**OPENED, "role": "verifier"}]
    assert [run_log.observed(1, event) for event in events] == ["setup", None, "agent", None, "verifier"]
    assert run_log.observed(2, OPENED) == "setup"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason(), "Trial 1: its harness process ended"),
        (Reason(cancelled=True), "Trial 1: stopped, a cancellation was asked for"),
        (Reason(deadline="trial"), "Trial 1: stopped at the trial's limit"),
        (Reason(deadline="run"), "Trial 1: stopped at the run's limit"),
    ],
)
def test_why_a_trial_ended_is_said(log: list[str], reason: Reason, words: str) -> None:
    RunLog("r").trial_ended(1, reason)
    assert log == [words]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
NAMES = st.sampled_from(["event", "role", "purpose", "outcome", "code", "version", "exit_code", "container_id"])
KINDS = st.sampled_from(["opened", "agent_version", "exec", "transfer", "failure", "removed", "counters"])


@given(event=st.dictionaries(NAMES, JSON), kind=KINDS)
def test_no_event_makes_it_fail(event: dict[str, Any], kind: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runlog, "append_log", lambda *_: None)
        RunLog("r").observed(1, {**event, "event": kind})
