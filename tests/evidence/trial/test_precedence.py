"""The table's order: with several observations at once, the earlier row decides. Every row alone decides too."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from evidence.reading.proofs import Proof
from evidence.reading.rewards import Reward, RewardState
from evidence.trial.classify import classify_trial
from evidence.trial.endpoint import EndpointFacts, EndpointFailure
from evidence.trial.facts import AgentFacts, Deadline, OwnFailure, Resources, Timing, TrialFacts
from runs.outcomes.buckets import Bucket
from runs.outcomes.codes import BADGES, CODES, SENTENCE_FIELDS, STEP_OF_ROW, FailureClass
from tests.evidence.trial_facts import PASSING, PLACES, facts_of

type Change = Callable[[TrialFacts], TrialFacts]


def _failed(code: str) -> Change:
    return lambda facts: replace(facts, checks=(*facts.checks, Proof("x", code, False)))


def _agent(**changes: object) -> Change:
    return lambda facts: replace(facts, agent=replace(facts.agent, **changes))


def _endpoint_failure(facts: TrialFacts) -> TrialFacts:
    failure = EndpointFailure("routing.tls")
    endpoint = replace(facts.endpoint, failures=1, last_failure=failure, ended_on_failure=True)
    return _agent(exit_code=1)(replace(facts, endpoint=endpoint))


def _oom(facts: TrialFacts) -> TrialFacts:
    return _agent(exit_code=137)(replace(facts, resources=replace(facts.resources, oom_kills=1)))


def _starved(**changes: object) -> Change:
    return lambda facts: _agent(exit_code=1)(replace(facts, resources=replace(facts.resources, **changes)))


def _verifier(**changes: object) -> Change:
    return lambda facts: replace(facts, verifier=replace(facts.verifier, **changes))


def _reward(state: RewardState) -> Change:
    return lambda facts: replace(facts, reward=Reward(state))


# Only changes that can stand beside each other: none undoes what an earlier row looks at.
ROWS: list[tuple[int, str, Change]] = [
    (1, "integrity.task_checksum", _failed("integrity.task_checksum")),
    (2, "invalid_evaluation.other_agent", _failed("invalid_evaluation.other_agent")),
    (3, "cancelled.requested", lambda facts: replace(facts, cancel=Timing.BEFORE_GRADE)),
    (4, "worker_runtime.interrupted", lambda facts: replace(facts, interrupted=True)),
    (4, "worker_runtime.process_lost", lambda facts: replace(facts, process_lost=True)),
    (
        5,
        "worker_runtime.start_failed",
        lambda facts: replace(facts, own_failures=(*facts.own_failures, OwnFailure("worker_runtime.start_failed"))),
    ),
    (5, "harness.no_result", lambda facts: replace(facts, harness_failure=OwnFailure("harness.no_result"))),
    (6, "incomplete.agent_deadline", lambda facts: replace(facts, deadline=Deadline("agent", 300))),
    (
        7,
        "authentication.not_ready",
        lambda facts: replace(facts, own_failures=(*facts.own_failures, OwnFailure("authentication.not_ready"))),
    ),
    (7, "routing.tls", _endpoint_failure),
    (8, "resource_exhaustion.memory", _oom),
    (8, "resource_exhaustion.pids", _starved(pids_limit_hits=1)),
    (8, "resource_exhaustion.disk", _starved(tmpfs_full=True)),
    (
        9,
        "invalid_evaluation.proof_missing",
        lambda facts: replace(facts, proofs=(Proof("p", "invalid_evaluation.proof_missing", False),)),
    ),
    (10, "worker_runtime.verifier_transfer", _verifier(bad_transfers=("verifier_logs: refused",))),
    (10, "grading.verifier_not_run", _verifier(ended=False)),
    (10, "grading.verifier_exit", _verifier(exit_code=3)),
    (11, "integrity.reward_both_files", _reward(RewardState.BOTH_FILES)),
]


@pytest.mark.parametrize(("code", "row"), PLACES)
def test_every_code_is_given_by_each_of_its_rows(code: str, row: int) -> None:
    result = classify_trial(facts_of(code, row))
    assert (result.code, result.row, result.step) == (code, row, STEP_OF_ROW[row])


def test_the_base_passes_in_row_12() -> None:
    result = classify_trial(PASSING)
    assert (result.bucket, result.row, result.code, result.badges) == (
        Bucket.PASSED,
        12,
        "passed.reward_1",
        (),
    )


@pytest.mark.parametrize(("row", "code", "change"), ROWS, ids=[code for _, code, _ in ROWS])
def test_a_row_alone_decides(row: int, code: str, change: Change) -> None:
    result = classify_trial(change(PASSING))
    assert (result.row, result.code) == (row, code)
    assert result.klass is CODES[code].klass and result.sentence and result.title
    assert not result.evaluated


@pytest.mark.parametrize(
    ("first", "second"),
    [(a, b) for a, b in itertools.combinations(ROWS, 2)],
    ids=[f"{a[1]} before {b[1]}" for a, b in itertools.combinations(ROWS, 2)],
)
def test_of_two_observations_the_earlier_row_decides(
    first: tuple[int, str, Change], second: tuple[int, str, Change]
) -> None:
    result = classify_trial(first[2](second[2](PASSING)))
    assert (result.row, result.code) == first[:2]


@pytest.mark.parametrize("state", [state for state in RewardState if state.value_or_none is None])
def test_every_reward_that_is_no_grade_has_its_code(state: RewardState) -> None:
    result = classify_trial(_reward(state)(PASSING))
    assert result.bucket is Bucket.ERROR
    assert result.code.endswith(state.value)
    assert result.klass is (FailureClass.INTEGRITY if state.is_contradiction else FailureClass.GRADING)


def test_a_broken_verifier_comes_before_a_contradictory_reward() -> None:
    result = classify_trial(_verifier(exit_code=1)(_reward(RewardState.BOTH_FILES)(PASSING)))
    assert result.code == "grading.verifier_exit"


def test_an_upstream_failure_counts_only_when_nothing_was_valid_or_the_agent_died_of_it() -> None:
    failure = EndpointFailure("routing.tls")
    early = replace(PASSING, endpoint=EndpointFacts(3, 1, last_failure=failure))
    assert classify_trial(early).code == "passed.reward_1"
    assert classify_trial(_agent(exit_code=1)(early)).code == "passed.reward_1"
    last = replace(PASSING, endpoint=EndpointFacts(3, 1, last_failure=failure, ended_on_failure=True))
    assert classify_trial(last).code == "passed.reward_1"
    assert classify_trial(_agent(exit_code=1)(last)).code == "routing.tls"
    nothing = replace(PASSING, endpoint=EndpointFacts(0, 1, last_failure=failure))
    assert classify_trial(nothing).code == "routing.tls"


def test_refusals_never_choose_a_class() -> None:
    facts = replace(PASSING, endpoint=EndpointFacts(completions=0, refusals=9))
    assert classify_trial(facts).code == "invalid_evaluation.no_completion"


@pytest.mark.parametrize("resource", [{"oom_kills": 1}, {"pids_limit_hits": 1}, {"tmpfs_full": True}])
def test_a_counter_without_an_error_of_the_agent_is_only_a_badge(resource: dict[str, int]) -> None:
    result = classify_trial(replace(PASSING, resources=Resources(available=True, **resource)))
    assert result.code == "passed.reward_1"
    assert len(result.badges) == 1


def test_a_trial_that_never_started_says_why() -> None:
    idle = TrialFacts(trial=3, task="task-3", started=False)
    assert classify_trial(idle).code == "worker_runtime.not_started"
    assert classify_trial(replace(idle, cancel=Timing.BEFORE_GRADE)).code == "cancelled.requested"
    assert classify_trial(replace(idle, interrupted=True)).code == "worker_runtime.interrupted"
    assert classify_trial(replace(idle, deadline=Deadline("run", 1800))).code == "incomplete.run_deadline"
    failed = replace(idle, own_failures=(OwnFailure("worker_runtime.probe"),))
    assert classify_trial(failed).code == "worker_runtime.probe"


def test_what_came_after_the_grade_is_a_badge() -> None:
    late = replace(PASSING, cancel=Timing.AFTER_GRADE, deadline=Deadline("trial", 600, Timing.AFTER_GRADE))
    result = classify_trial(late)
    assert result.code == "passed.reward_1"
    assert result.badges == ("late_cancel", "late_deadline")


def test_a_reward_after_a_limit_is_kept_and_not_counted() -> None:
    """The limit's value is shown, the reward is a badge."""
    result = classify_trial(replace(PASSING, deadline=Deadline("agent", 300)))
    assert result.bucket is Bucket.ERROR
    assert "300 s" in result.sentence
    assert result.badges == ("graded_after_limit",)


def test_every_badge_is_explained() -> None:
    everything = replace(
        PASSING,
        cancel=Timing.AFTER_GRADE,
        deadline=Deadline("trial", None, Timing.AFTER_GRADE),
        endpoint=EndpointFacts(3, refusals=1, session_mismatches=1),
        agent=AgentFacts(True, 1, True, True),
        resources=Resources(False, 1, 1, True),
        harbor_exception="X",
    )
    badges = classify_trial(everything).badges
    assert set(badges) <= set(BADGES)
    assert len(badges) == 13


def test_every_code_is_a_stable_name_with_a_sentence_that_can_be_filled() -> None:
    fields = dict.fromkeys(SENTENCE_FIELDS, "5")
    for name, code in CODES.items():
        assert name == code.name and name.count(".") == 1
        assert "{" not in code.sentence.format(**fields)
        assert code.title and code.sentence.endswith(".")
        assert code.bucket in (Bucket.PASSED, Bucket.FAILED) or (code.klass and code.remedy)


def test_a_refused_output_is_judged_after_the_proof_and_before_the_grading_that_it_made_impossible() -> None:
    refused = facts_of("failed.output_refused", 10)
    unproved = replace(refused, proofs=(Proof("p", "invalid_evaluation.proof_missing", False),))
    assert classify_trial(unproved).code == "invalid_evaluation.proof_missing"
    ungraded = _verifier(ended=False)(refused)
    assert classify_trial(ungraded).code == "failed.output_refused"


def test_only_a_grade_that_the_verifier_gave_needs_no_code_beside_it() -> None:
    codes = {code: classify_trial(facts_of(code, row)).failure_code for code, row in PLACES}
    assert {code for code, beside in codes.items() if not beside} == {"passed.reward_1", "failed.reward_0"}
    assert all(beside == code for code, beside in codes.items() if beside)


def test_only_what_was_evaluated_has_a_reward_and_a_refused_output_has_none_but_0() -> None:
    rewards = {code: classify_trial(facts_of(code, row)).reward for code, row in PLACES}
    counted = {code: reward for code, reward in rewards.items() if reward is not None}
    assert counted == {"passed.reward_1": 1, "failed.reward_0": 0, "failed.output_refused": 0}
