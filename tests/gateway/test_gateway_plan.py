"""What is refused before any container is made, and what of the spec the gateway is told."""

from pathlib import Path
from typing import Any

import pytest

from runs.engine.network.gateway import GatewayError, GatewayPlan, readiness_trial, start_gateway

SPEC: dict[str, Any] = {
    "images": {"gateway": "sha256:" + "a" * 64},
    "endpoint": {
        "base_url": "http://127.0.0.1:1/v1", "model": "m", "served_model": None, "route": "direct",
    },
    "tasks": [{"ordinal": 1}, {"ordinal": 2}],
    "controls": {"max_steps": 32, "max_completion_tokens": 4096, "request_timeout_s": 60},
    "limits": {"gateway": {"cpus": 1.0, "memory_bytes": 2**28, "pids": 32, "nofile": 256, "tmpfs": {}}},
}  # fmt: skip


def failure(credential: str | None = None, **endpoint: Any) -> str:
    plan = GatewayPlan.from_spec(SPEC | {"endpoint": SPEC["endpoint"] | endpoint})
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
    plan = GatewayPlan.from_spec(SPEC)
    assert (plan.max_steps, plan.max_completion_tokens, plan.pids) == (32, 4096, 32)


def test_the_readiness_question_has_a_number_that_is_no_trials() -> None:
    assert readiness_trial(SPEC) == GatewayPlan.from_spec(SPEC).trials == 3
    assert readiness_trial(SPEC) not in [task["ordinal"] for task in SPEC["tasks"]]
