"""The trial page names the step that the classifier says decided, and calls only what was judged held."""

import json
from typing import Any

import pytest

from evidence.register.judging import trial_end
from evidence.trial.classify import classify_trial
from evidence.trial.document import trial_document
from runs.models import Run, Trial
from runs.outcomes.codes import CODES, STEP_OF_ROW, Step
from runs.web.presenting.trial_page import StepRow, trial_page
from tests.evidence.trial_facts import PLACES, UNJUDGED, facts_of

WORDS = {
    Step.IDENTITY: "Identity and hashes",
    Step.CONTROLS: "Confirmed controls",
    Step.EXECUTION: "Carried out",
    Step.TIME_LIMITS: "Within its time",
    Step.ENDPOINT: "Model answered",
    Step.RESOURCES: "Within its resources",
    Step.PROOF: "Proof of execution",
    Step.GRADE: "Graded 0 or 1",
}


def judged(code: str, row: int, *, without: tuple[str, ...] = ()) -> list[StepRow]:
    """The steps that the page shows of a trial that this row decided; its stored result lacks the named fields."""
    facts = facts_of(code, row)
    result = classify_trial(facts)
    document: dict[str, Any] = {k: v for k, v in trial_document(facts, result).items() if k not in without}
    end = trial_end(facts, result)
    trial = Trial(
        ordinal=1,
        task_name="task-1",
        bucket=end.bucket.value,
        failure_class=end.failure_class,
        failure_code=end.failure_code,
        reward=end.reward,
        result=json.dumps(document),
    )
    return trial_page(trial, Run(spec="{}"))["steps"]


def decided(steps: list[StepRow]) -> list[str]:
    return [step.word for step in steps if "decided" in step.tone]


@pytest.mark.parametrize(("code", "row"), PLACES)
def test_the_page_shows_the_step_of_the_row_that_decided(code: str, row: int) -> None:
    steps, order = judged(code, row), list(WORDS)
    assert [step.word for step in steps] == list(WORDS.values())
    if code in ("passed.reward_1", "failed.reward_0"):
        assert {step.icon for step in steps} == {"held"}
        return
    place = order.index(STEP_OF_ROW[row])
    assert decided(steps) == [WORDS[order[place]]]
    assert steps[place].found.startswith(CODES[code].title)
    before = {step.icon for step in steps[:place]}
    assert before <= {"held" if facts_of(code, row).started else "skipped"}
    assert {step.icon for step in steps[place + 1 :]} <= {"skipped"}


@pytest.mark.parametrize(("code", "row"), PLACES)
def test_a_result_from_before_the_step_was_stored_shows_the_step_of_its_row(code: str, row: int) -> None:
    assert judged(code, row, without=("step",)) == judged(code, row)


@pytest.mark.parametrize("code", [code for code, _ in PLACES])
def test_a_result_without_step_and_row_shows_the_first_row_that_gives_its_code(code: str) -> None:
    row = CODES[code].rows[0]
    assert judged(code, row, without=("step", "row")) == judged(code, row)


def test_what_a_stopped_trial_did_not_prove_is_not_claimed() -> None:
    """No completion is found out after the endpoint's step: "the ledger holds well-formed answers" would be wrong."""
    found = {step.word: step.found for step in judged("invalid_evaluation.no_completion", 9)}
    assert found["Model answered"] == "no failure of the endpoint decided"
    assert found["Confirmed controls"] == "no record shows other controls"


@pytest.mark.parametrize("result", ["", json.dumps({"bucket": "passed", "step": "grade"})])
def test_a_trial_that_was_closed_without_the_classifier_shows_nothing_as_held(result: str) -> None:
    trial = Trial(ordinal=1, bucket="error", failure_class="worker_runtime", failure_code=UNJUDGED, result=result)
    steps = trial_page(trial, Run(spec="{}"))["steps"]
    assert decided(steps) == ["Carried out"]
    assert {step.icon for step in steps} == {"attention", "skipped"}


def test_a_code_that_is_not_known_any_more_decides_no_step_and_breaks_no_page() -> None:
    trial = Trial(ordinal=1, bucket="error", failure_class="harness", failure_code="harness.of_another_version")
    assert {step.icon for step in trial_page(trial, Run(spec="{}"))["steps"]} == {"skipped"}


def test_a_code_of_another_version_is_shown_at_the_step_that_was_stored_with_it() -> None:
    result = json.dumps({"bucket": "error", "step": "proof", "execution_status": "ended"})
    trial = Trial(ordinal=1, bucket="error", failure_class="harness", failure_code="harness.unknown", result=result)
    steps = trial_page(trial, Run(spec="{}"))["steps"]
    assert decided(steps) == ["Proof of execution"]
    assert [step.icon for step in steps] == ["held"] * 6 + ["attention", "skipped"]
