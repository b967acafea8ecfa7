"""Every way in which a trial can go wrong gets its documented code, and only a proved grade counts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from runs.outcomes.buckets import Bucket
from runs.outcomes.codes import CODES
from tests.evidence.folders import RunCase, load_run, passing_run
from tests.evidence.variants import GRADED, WRONG, Variant, late_deadline

REAL = Path(__file__).parents[2] / "fixtures/real-run"


def code_of(variant: Variant, where: Path, make: Callable[[], RunCase]) -> str:
    run = make()
    variant.change(run)
    facts = read_run(run.write(where / "run"))
    result = classify_trial(facts.trials[0])
    assert result.row in CODES[result.code].rows
    return result.code


@pytest.mark.parametrize("variant", WRONG, ids=lambda variant: variant.name)
def test_a_corrupted_trial_gets_its_documented_code_and_never_a_grade(variant: Variant, tmp_path: Path) -> None:
    assert code_of(variant, tmp_path, lambda: passing_run(2)) == variant.code
    assert CODES[variant.code].bucket in (Bucket.ERROR, Bucket.CANCELLED)


@pytest.mark.parametrize("variant", GRADED, ids=lambda variant: variant.name)
def test_a_proved_grade_counts_as_it_stands(variant: Variant, tmp_path: Path) -> None:
    assert code_of(variant, tmp_path, lambda: passing_run(2)) == variant.code
    reward = read_run(tmp_path / "run").trials[0].reward.state.value_or_none
    assert reward == (1 if variant.code == "passed.reward_1" else 0)


@pytest.mark.parametrize("variant", [*WRONG, *GRADED], ids=lambda variant: variant.name)
def test_a_real_run_of_this_project_with_the_same_change_gets_the_same_code(variant: Variant, tmp_path: Path) -> None:
    """The run was made by the real Harbor and the real containers; only its paths were replaced."""
    assert code_of(variant, tmp_path, lambda: load_run(REAL)) == variant.code


def test_a_command_that_hit_the_agents_own_limit_is_a_badge(tmp_path: Path) -> None:
    run = passing_run(1)
    limit = b'{"messages": [{"role": "tool", "extra": {"exception_type": "TimeoutExpired"}}]}'
    run.trial.kept["agent/mini-swe-agent.trajectory.json"] = limit
    run.trial.recopy()
    result = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert (result.code, result.badges) == ("passed.reward_1", ("command_limit_hit",))


def test_the_real_run_passes_as_it_was_stored() -> None:
    facts = read_run(REAL)
    assert [classify_trial(trial).code for trial in facts.trials] == ["passed.reward_1"] * 3
    assert [check.name for trial in facts.trials for check in trial.checks if not check.ok] == []


@pytest.mark.parametrize(
    ("name", "limit"),
    [("trial", "600 s"), ("run", "1800 s"), ("verifier", "60 s"), ("set-up", "60 s"), ("environment", "30 s")],
)
def test_a_time_limit_says_which_limit_it_was(name: str, limit: str, tmp_path: Path) -> None:
    """The limit's value is shown."""
    run = passing_run(2)
    next(variant for variant in WRONG if variant.name == name).change(run)
    assert limit in classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).sentence


@pytest.mark.parametrize("phase", ["trial", "run"])
def test_a_limit_after_the_grade_is_a_badge(phase: str, tmp_path: Path) -> None:
    run = passing_run(1)
    late_deadline(phase)(run)
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).badges == ("late_deadline",)


def test_there_are_at_least_300_corrupted_variants() -> None:
    assert len(WRONG) >= 300
    assert len({(variant.name, variant.code) for variant in WRONG}) >= 300
