"""What is refused before any container is made, and what of the spec the gateway is told."""

from pathlib import Path
from typing import Any

import pytest

from runs.engine.network.gateway import GatewayError, GatewayPlan, readiness_trial, start_gateway
from tests.spec_documents import run_spec

SHA256 = "5" * 64
SPEC = run_spec("one", "two", changes={"limits.gateway.pids": 48})


def failure(credential: str | None = None, *, base_url: str) -> str:
    plan = GatewayPlan.from_spec(run_spec(changes={"endpoint.base_url": base_url}), SHA256)
    unused: Any = None
    with pytest.raises(GatewayError) as caught:
        start_gateway(unused, unused, unused, plan, credential, Path("unused"))
    assert caught.value.sentence and (credential or "-") not in caught.value.detail
    return caught.value.code


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "x.localhost"])
def test_loopback_is_refused_without_the_declared_host_route(host: str) -> None:
    assert failure(base_url=f"http://{host}:8000/v1") == "gateway.loopback"


@pytest.mark.parametrize("credential", ["two words", "line\nbreak", "ünicode"])
def test_a_credential_that_no_header_can_carry_is_refused(credential: str) -> None:
    assert failure(credential, base_url="http://192.0.2.9/v1") == "gateway.credential"


def test_the_plan_takes_its_caps_from_the_spec() -> None:
    plan = GatewayPlan.from_spec(SPEC, SHA256)
    assert (plan.max_steps, plan.max_completion_tokens, plan.pids) == (32, 4096, 48)
    assert plan.spec_sha256 == SHA256


def test_the_readiness_question_has_a_number_that_is_no_trials() -> None:
    assert readiness_trial(SPEC) == GatewayPlan.from_spec(SPEC, SHA256).trials == 3
    assert readiness_trial(SPEC) not in [task.ordinal for task in SPEC.tasks]


def test_the_plan_takes_the_sampling_that_is_fixed_and_leaves_the_rest_to_the_agent() -> None:
    fixed = run_spec(changes={"controls.sampling": {"temperature": 0.5}})
    assert GatewayPlan.from_spec(fixed, SHA256).sampling == {"temperature": 0.5}
    assert GatewayPlan.from_spec(SPEC, SHA256).sampling == {}
