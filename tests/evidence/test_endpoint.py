"""What the ledger says about a trial's endpoint; tokens only when every completion reported them."""

import pytest

from evidence.trial.endpoint import EndpointFacts, EndpointFailure, endpoint_facts
from runs.documents.ledger import TrialLedger, read_ledger
from tests.evidence.folders import chain, failed_request, request


def facts(*lines: dict[str, object]) -> EndpointFacts:
    return endpoint_facts(read_ledger(chain([*(request(1, **line) for line in lines), {"kind": "closed"}])).trial(1))


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
