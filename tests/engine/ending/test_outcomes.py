"""How a run's facts become rows: what was not recorded stays unknown, and never turns into 0."""

from dataclasses import replace
from pathlib import Path

import pytest

from evidence.reading.clocks import Interval
from evidence.register.judging import trial_end
from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from evidence.trial.facts import TrialFacts
from runs.engine.ending.conclusion import resource_states
from runs.outcomes.buckets import Bucket
from runs.ownership import Journal, Outcome, ResourceStage, Role
from runs.services.transitions import TrialEnd
from tests.evidence.folders import RunCase, passing_run


def facts_of(case: RunCase, tmp_path: Path) -> list[TrialFacts]:
    return list(read_run(case.write(tmp_path / "run")).trials)


def end_of(facts: TrialFacts) -> TrialEnd:
    return trial_end(facts, classify_trial(facts))


def test_a_graded_trial_is_told_whole(tmp_path: Path) -> None:
    facts = facts_of(passing_run(), tmp_path)[0]
    end = end_of(facts)
    assert (end.bucket, end.reward, end.failure_class, end.failure_code) == (Bucket.PASSED, 1, "", "")
    assert str(end.trial_uuid) == facts.trial_uuid and end.steps == 3
    assert end.started_at is not None and end.ended_at is not None and end.started_at < end.ended_at
    assert end.timings["total_s"] > 0 and end.timings["agent_s"] > 0 and "clock" in end.timings


def test_a_trial_that_never_started_has_no_steps_reward_or_times(tmp_path: Path) -> None:
    case = passing_run()
    case.never_started(2, 3)
    case.run["interrupted"] = True
    end = end_of(facts_of(case, tmp_path)[1])
    assert (end.bucket, end.failure_code) == (Bucket.ERROR, "worker_runtime.interrupted")
    assert (end.reward, end.steps, end.prompt_tokens, end.completion_tokens) == (None, None, None, None)
    assert (end.started_at, end.ended_at, end.trial_uuid) == (None, None, None)
    assert set(end.timings) == {"clock"}


def test_a_class_and_code_are_written_for_what_was_not_evaluated(tmp_path: Path) -> None:
    case = passing_run()
    case.trial.reward(json=b'{"reward": null}')
    end = end_of(facts_of(case, tmp_path)[0])
    assert (end.bucket, end.failure_class, end.failure_code) == (Bucket.ERROR, "grading", "grading.reward_null")
    assert end.reward is None


@pytest.mark.parametrize(
    ("text", "known"),
    [("2026-01-01T10:00:00.5Z", True), ("2026-01-01T10:00:00", True), ("yesterday", False), (None, False)],
)
def test_a_time_without_a_zone_is_utc_and_no_time_is_none(tmp_path: Path, text: str | None, known: bool) -> None:
    facts = facts_of(passing_run(), tmp_path)[0]
    end = end_of(replace(facts, total=replace(facts.total, started_at=text)))
    assert (end.started_at is not None) is known
    assert end.started_at is None or end.started_at.utcoffset() is not None


def test_a_trial_uuid_that_is_none_is_not_made_up(tmp_path: Path) -> None:
    facts = facts_of(passing_run(), tmp_path)[0]
    assert end_of(replace(facts, trial_uuid="not-a-uuid")).trial_uuid is None


def test_inverted_times_end_nowhere(tmp_path: Path) -> None:
    facts = facts_of(passing_run(), tmp_path)[0]
    total = Interval(started_at=facts.total.ended_at, ended_at=facts.total.started_at)
    assert total.inverted and end_of(replace(facts, total=total)).ended_at is None


def test_every_intent_of_the_journal_is_a_row_whatever_became_of_it(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "journal", run_id="0" * 32)
    made = journal.intend(Role.AGENT, trial=1, session_id="s__env", image_id="sha256:" + "1" * 64)
    with journal.creating(made) as slot:
        slot.persist("a" * 64)
    journal.record_outcome(made.nonce, Outcome.REMOVED)
    lost = journal.intend(Role.NETWORK, kind="network")
    rows = {row.nonce: row for row in resource_states(journal.read())}
    assert set(rows) == {made.nonce, lost.nonce}
    assert (rows[made.nonce].role, rows[made.nonce].trial, rows[made.nonce].resource_id) == ("agent", 1, "a" * 64)
    assert (rows[made.nonce].stage, rows[made.nonce].outcome) == (ResourceStage.REMOVED.value, "removed")
    assert (rows[lost.nonce].kind, rows[lost.nonce].resource_id, rows[lost.nonce].outcome) == ("network", "", "")
