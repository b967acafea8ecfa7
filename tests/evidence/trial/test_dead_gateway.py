"""A gateway that died is an outage: its trials were not measured, and nobody is accused of having cut its ledger."""

from pathlib import Path
from typing import Any

import pytest

from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from tests.evidence.folders import RunCase, at, passing_run

DEAD = {"at": at(150), "exit_code": 137, "oom_killed": False}


def codes(run: RunCase, where: Path) -> list[str]:
    return [classify_trial(trial).code for trial in read_run(run.write(where / "run")).trials]


def dead(died: Any = DEAD) -> RunCase:
    """Three trials at 0 s, 100 s and 200 s of 40 s each; the ledger has no end."""
    run = passing_run(3)
    run.run["gateway"]["died"] = died
    run.ledger.pop()
    return run


def test_trials_that_were_over_keep_their_grade_and_the_others_were_not_measured(tmp_path: Path) -> None:
    assert codes(dead(), tmp_path) == ["passed.reward_1", "passed.reward_1", "worker_runtime.gateway"]


def test_a_trial_in_which_it_died_was_not_measured_whatever_was_graded(tmp_path: Path) -> None:
    run = dead({**DEAD, "at": at(139)})
    run.trials[1].reward(json=b'{"reward": 0}')
    assert codes(run, tmp_path) == ["passed.reward_1", "worker_runtime.gateway", "worker_runtime.gateway"]


def test_a_line_that_it_was_writing_is_no_breach(tmp_path: Path) -> None:
    run = dead()
    run.torn = b'{"at":"2026'
    assert codes(run, tmp_path)[:1] == ["passed.reward_1"]


def test_when_nobody_knows_the_moment_no_trial_counts(tmp_path: Path) -> None:
    assert codes(dead({**DEAD, "at": None}), tmp_path) == ["worker_runtime.gateway"] * 3


@pytest.mark.parametrize("when", ["soon", 5, "", "1999-01-01T00:00:00Z"])
def test_a_moment_that_is_none_makes_the_record_unreadable(when: object, tmp_path: Path) -> None:
    assert codes(dead({**DEAD, "at": when}), tmp_path) == ["integrity.run_unreadable"] * 3


def test_one_that_ended_in_order_before_it_was_asked_is_as_dead(tmp_path: Path) -> None:
    run = dead({**DEAD, "exit_code": 0})
    run.ledger.append({"kind": "closed"})
    assert codes(run, tmp_path)[2] == "worker_runtime.gateway"


def test_its_death_says_how(tmp_path: Path) -> None:
    details = [
        classify_trial(read_run(dead({**DEAD, "oom_killed": killed}).write(tmp_path / str(killed))).trials[2]).detail
        for killed in (True, False)
    ]
    assert details == ["it ended during the run: out of memory", "it ended during the run: exit code 137"]


def test_a_death_excuses_no_line_that_was_changed_or_lost(tmp_path: Path) -> None:
    for name, change in {"changed": {"prev": "0" * 64}, "lost": {"seq": 7}}.items():
        run = dead()
        run.ledger[1].update(change)
        assert codes(run, tmp_path / name)[0] == "integrity.ledger_broken"


def test_without_a_death_a_missing_end_stays_a_breach(tmp_path: Path) -> None:
    assert codes(dead(None), tmp_path) == ["integrity.ledger_broken"] * 3


def test_without_a_death_a_torn_line_stays_a_breach(tmp_path: Path) -> None:
    run = dead(None)
    run.torn = b'{"at":"2026'
    assert codes(run, tmp_path)[0] == "integrity.ledger_broken"


def test_a_trial_that_never_began_says_so_itself(tmp_path: Path) -> None:
    run = dead()
    run.never_started(3)
    assert codes(run, tmp_path)[2] == "worker_runtime.not_started"
