"""When does a probe pass? Reachability decides, and what was never tried is not taken for confined."""

from typing import Any

import pytest

from runs.engine.network.egress import judge

GATEWAY = {"address": "172.20.0.2", "answer": "HTTP/1.1 404 Not Found\r\nServer: benchsite-gateway\r\n"}


def attempt(name: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"kind": "tcp", "name": name, "address": "172.17.0.1", "port": 9, "outcome": outcome, **more}


ALWAYS = [attempt(name, "silent") for name in ("host_address", "gateway_outer_leg", "outside_address", "name_lookup")]


def report(*attempts: dict[str, Any], gateway: dict[str, Any] = GATEWAY) -> Any:
    return judge({"attempts": [*ALWAYS, *attempts], "gateway": gateway}, "172.20.0.2", [])


@pytest.mark.parametrize("outcome", ["silent", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "answered:2"])
def test_what_never_answered_is_not_reached(outcome: str) -> None:
    assert report(attempt("host_address", outcome)).passed


@pytest.mark.parametrize("outcome", ["connected", "refused"])
@pytest.mark.parametrize(
    "name",
    ["default_gateway", "host_address", "network_gateway", "gateway_outer_leg", "ipv6", "outside_address"],
)
def test_an_address_that_answered_fails_its_check(name: str, outcome: str) -> None:
    """Host ports must be unreachable; a refused connection was answered by the host."""
    found = report(attempt(name, "silent"), attempt(name, outcome))
    assert [check.code for check in found.failures] == [f"egress.{name}"]
    assert name.replace("_", " ") in found.sentence and outcome in found.detail


def test_a_name_that_resolved_fails_the_lookup() -> None:
    found = report(attempt("name_lookup", "resolved", lookup="example.com"))
    assert [check.code for check in found.failures] == ["egress.name_lookup"]


@pytest.mark.parametrize(
    "gateway",
    [
        {},
        {"error": "timed out"},
        GATEWAY | {"address": "172.20.0.9"},
        GATEWAY | {"answer": "HTTP/1.1 200 OK\r\nServer: other\r\n"},
    ],
)
def test_a_gateway_that_did_not_answer_as_itself_fails(gateway: dict[str, Any]) -> None:
    assert [check.code for check in report(gateway=gateway).failures] == ["egress.gateway_unreachable"]


def test_a_check_that_was_never_tried_fails_where_there_is_always_something_to_try() -> None:
    found = judge({"attempts": ALWAYS[1:], "gateway": GATEWAY}, "172.20.0.2", [])
    assert [(check.name, check.code) for check in found.failures] == [("host_address", "egress.not_tried")]


def test_a_host_without_ipv6_or_a_default_route_has_nothing_to_try_there() -> None:
    tried = {check.name: check.detail for check in report().checks}
    assert tried["ipv6"] == tried["default_gateway"] == "nothing to try on this host"


def test_a_probe_without_a_report_fails() -> None:
    found = judge(None, "172.20.0.2", ["x"])
    assert not found.passed and found.failures[0].code == "egress.no_report" and found.unproved == ("x",)


def test_the_report_for_the_runs_facts_is_plain_data() -> None:
    document = report().as_json()
    held = {"name": "host_address", "passed": True, "code": None, "detail": "172.17.0.1 port 9: silent"}
    assert document["passed"] is True and held in document["checks"]
