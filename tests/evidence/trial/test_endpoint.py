"""What the ledger says about a trial's endpoint; tokens only when every completion reported them."""

from dataclasses import replace

import pytest

from evidence.reading.rewards import Reward, RewardState
from evidence.trial.classify import Classification, classify_trial
from evidence.trial.endpoint import EndpointFacts, EndpointFailure, endpoint_facts
from evidence.trial.facts import AgentFacts
from runs.documents.ledger import TrialLedger, read_ledger
from tests.evidence.folders import chain, failed_request, request
from tests.evidence.trial_facts import PASSING

OPENING = {"kind": "opened", "version": 3, "run_id": "0" * 32, "spec_sha256": None, "nonce": "b" * 32}


def facts(*lines: dict[str, object]) -> EndpointFacts:
    report = read_ledger(chain([OPENING, *(request(1, **line) for line in lines), {"kind": "closed"}]))
    assert report.intact
    return endpoint_facts(report.trial(1))


def judged(*lines: dict[str, object], failed: bool, reward: RewardState = RewardState.ZERO) -> Classification:
    """The trial of these lines, whose agent ended, with an error or without."""
    agent = AgentFacts(ended=True, exit_code=int(failed))
    return classify_trial(replace(PASSING, endpoint=facts(*lines), agent=agent, reward=Reward(reward)))


OVERFLOW = failed_request("context_window", 400)
OWN_WORDS = {
    "kind": "refused", "code": "endpoint_words.size", "status": 404, "request_sha256": None, "response_sha256": None,
    "message_sha256": None,
}  # fmt: skip


def test_a_trial_that_never_asked_has_no_facts() -> None:
    assert facts() == endpoint_facts(TrialLedger()) == EndpointFacts(0, 0, 0, 0, None, False, None, None)


def test_requests_are_counted_by_what_became_of_them() -> None:
    refused = {"kind": "refused", "code": "max_tokens", "status": 404, "request_sha256": None, "session_matches": False}
    found = facts({}, {}, failed_request("status", 503), refused)
    assert (found.completions, found.failures, found.refusals, found.session_mismatches) == (2, 1, 1, 1)
    assert found.last_failure == EndpointFailure("serving_runtime.upstream_status", 503)
    assert found.ended_on_failure
    assert not facts(failed_request("status", 503), {}, refused).ended_on_failure


@pytest.mark.parametrize(
    ("lines", "prompt", "completion"),
    [
        ([{}, {}], 200, 20),
        ([{"prompt_tokens": 0}], 0, 10),
        ([{}, {"prompt_tokens": None}], None, 20),
        ([{"prompt_tokens": None, "completion_tokens": None}], None, None),
        ([failed_request("timeout"), {}], 100, 10),
    ],
)
def test_tokens_are_summed_only_when_every_completion_reported_them(
    lines: list[dict[str, object]], prompt: int | None, completion: int | None
) -> None:
    found = facts(*lines)
    assert (found.prompt_tokens, found.completion_tokens) == (prompt, completion)


def test_what_was_cut_refused_or_too_long_is_counted_of_the_answers_it_is_about() -> None:
    cut, both = {"flags": ["cut"]}, {"flags": ["cut", "refused"]}
    found = facts(cut, {}, both, OVERFLOW, {"kind": "wrong_model", "flags": ["cut"]})
    assert (found.cut, found.model_refusals, found.context_overflows) == (2, 1, 1)
    assert (found.completions, found.failures, found.ended_on_failure) == (3, 1, True)
    assert not facts({}, failed_request("status", 500), OVERFLOW).ended_on_failure


@pytest.mark.parametrize("reward", [RewardState.ONE, RewardState.ZERO])
def test_work_before_the_context_overflowed_is_graded_as_it_is(reward: RewardState) -> None:
    result = judged({}, {}, OVERFLOW, failed=True, reward=reward)
    assert result.reward == int(reward is RewardState.ONE)
    assert "context_window_exceeded" in result.badges and result.failure_code == ""


def test_an_overflow_hides_no_failure_that_gave_nothing() -> None:
    assert judged(OVERFLOW, failed=True).code == "invalid_evaluation.no_completion"
    assert judged(failed_request("status", 503), OVERFLOW, failed=True).code == "serving_runtime.upstream_status"


@pytest.mark.parametrize("reward", [RewardState.ONE, RewardState.ZERO])
@pytest.mark.parametrize("failed", [True, False])
def test_a_refusal_of_the_endpoints_own_words_is_our_error_whatever_the_grade(
    failed: bool, reward: RewardState
) -> None:
    result = judged({}, OWN_WORDS, failed=failed, reward=reward)
    assert (result.code, result.row, result.evaluated) == ("harness.gateway_incompatible", 5, False)
    assert "gateway_refusals" not in result.badges


def test_a_refusal_of_what_the_agent_made_up_is_a_badge() -> None:
    result = judged({}, OWN_WORDS | {"code": "body.name"}, failed=True)
    assert result.code == "failed.reward_0" and "gateway_refusals" in result.badges


@pytest.mark.parametrize(
    ("said_status", "code"),
    [
        (429, "serving_runtime.rate_limited"), (401, "authentication.rejected"), (404, "routing.not_found"),
        (503, "serving_runtime.upstream_status"), (None, "serving_runtime.error_in_success"),
    ],
)  # fmt: skip
def test_an_error_inside_a_success_is_what_its_own_status_says(said_status: int | None, code: str) -> None:
    inner = failed_request("error_in_success", 200) | {"said_status": said_status}
    result = judged(inner, failed=True)
    assert result.code == code and "status 200" not in result.sentence


@pytest.mark.parametrize("lines", [[{"kind": "malformed", "code": None}], [failed_request("protocol")]])
def test_a_ledger_of_before_leads_to_the_codes_of_before(lines: list[dict[str, object]]) -> None:
    report = read_ledger(chain([OPENING | {"version": 2}, *(request(1, **each) for each in lines), {"kind": "closed"}]))
    failure = endpoint_facts(report.trial(1)).last_failure
    assert report.intact and failure is not None
    assert failure.code in ("serving_runtime.malformed", "serving_runtime.upstream_status")
