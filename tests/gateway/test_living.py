"""How the program starts, refuses to start, and ends."""

import json
import signal
from typing import Any

import pytest

from runs.images.gateway.model_gateway.config import MAX_CONFIG_BYTES, ConfigError, parse_config
from tests.gateway.process import CREDENTIAL, RUN_KEY, GatewayProcess, configuration, raw_endpoint, running

URL = "http://127.0.0.1:1/v1"


def parsed(**changes: Any) -> Any:
    return parse_config(json.dumps(configuration(URL) | changes).encode())


def endpoint(**changes: Any) -> dict[str, Any]:
    return {"endpoint": configuration(URL)["endpoint"] | changes}


def test_the_program_says_where_it_listens_and_ends_on_term_with_a_closed_ledger() -> None:
    with running(configuration(URL)) as gateway:
        assert gateway.event == {"event": "ready", "host": "127.0.0.1", "port": gateway.port}
        report = gateway.stop()
    assert gateway.process.returncode == 0
    assert report.intact and report.lines == 2 and report.opening is not None


def test_a_killed_gateway_leaves_a_ledger_that_is_not_closed() -> None:
    with raw_endpoint() as served, running(configuration(f"http://127.0.0.1:{served.port}/v1")) as gateway:
        gateway.ask()
        gateway.process.send_signal(signal.SIGKILL)
        fault = gateway.stop().fault
    assert fault is not None and fault.code == "ledger.not_closed"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{}\n", "config"),
        (b"not json\n", "config"),
        (b"x" * (MAX_CONFIG_BYTES + 1), "stdin"),
        (json.dumps(configuration("http://name.invalid/v1")).encode() + b"\n", "resolve"),
        (
            json.dumps(configuration(URL) | {"listen": {"host": "192.0.2.77", "port": 0}}).encode() + b"\n",
            "listen",
        ),
    ],
)
def test_a_gateway_that_cannot_serve_says_why_and_ends(line: bytes, code: str) -> None:
    gateway = GatewayProcess(line)
    gateway.stop()
    assert (gateway.event["event"], gateway.event["code"], gateway.process.returncode) == ("failed", code, 2)
    assert not gateway.output
    assert CREDENTIAL not in str(gateway.event) and RUN_KEY.hex() not in str(gateway.event)


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"schema": "benchsite.gateway-config/v2"},
        {"run": None},
        {"run": {"id": "0" * 32, "nonce": "2" * 32}},
        {"run": {"id": "two words", "spec_sha256": None, "nonce": "2" * 32}},
        {"run": {"id": "0" * 32, "spec_sha256": "A" * 64, "nonce": "2" * 32}},
        {"run": {"id": "0" * 32, "spec_sha256": None, "nonce": "2" * 31}},
        {"run_key": "ab"},
        {"run_key": "AB" * 32},
        {"credential": "two words"},
        {"credential": "line\nbreak"},
        {"credential": "ünicode"},
        {"credential": ""},
        {"listen": {"host": "localhost", "port": 1}},
        {"listen": {"host": "0.0.0.0", "port": 70_000}},
        endpoint(base_url="ftp://h/v1"),
        endpoint(base_url="http://u:p@h/v1"),
        endpoint(base_url="http://h/v1?key=1"),
        endpoint(base_url="http://h/v1?"),
        endpoint(base_url="http://h/v1#x"),
        endpoint(base_url="http://h:x/v1"),
        endpoint(base_url="http:///v1"),
        endpoint(connect_host="a-name"),
        endpoint(model=""),
        endpoint(model="a b"),
        endpoint(served_models="other"),
        endpoint(served_models=[1]),
        endpoint(served_models=["other"] * 17),
        endpoint(addresses=None),
        endpoint(headers=[]),
        endpoint(headers={"Authorization": "x"}),
        endpoint(headers={"content-length": "1"}),
        endpoint(headers={"X-Api-Key": "x"}),
        endpoint(headers={"X Team": "x"}),
        endpoint(headers={"X-Team": "a\r\nX-Other: b"}),
        endpoint(headers={"X-Team": ""}),
        endpoint(headers={"X-Team": 7}),
        endpoint(headers={f"X-{number}": "x" for number in range(17)}),
        endpoint(ca_pem=""),
        endpoint(ca_pem="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
        endpoint(base_url="https://h/v1", ca_pem="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
        endpoint(base_url="https://h/v1", ca_pem=7),
        endpoint(addresses={"private": 1, "within": None}),
        endpoint(addresses={"private": False, "within": ["10.0.0.0/8"] * 257}),
        endpoint(addresses={"private": False, "within": ["10.0.0.1/8"]}),
        endpoint(addresses={"private": False, "within": [10]}),
        {"limits": configuration(URL, max_steps=0)["limits"]},
        {"limits": configuration(URL, max_steps=True)["limits"]},
        {"limits": configuration(URL, request_timeout_s=float("inf"))["limits"]},
        {"limits": configuration(URL, request_timeout_s=0)["limits"]},
        {"limits": {}},
    ],
)
def test_a_configuration_that_is_not_exactly_as_agreed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**changes)
    assert CREDENTIAL not in str(caught.value)


def test_a_configuration_never_shows_its_secrets() -> None:
    shown = repr(parsed())
    assert CREDENTIAL not in shown and RUN_KEY.hex() not in shown and str(RUN_KEY) not in shown


@pytest.mark.parametrize(
    ("url", "port", "path", "authority"),
    [
        ("http://h/v1", 80, "/v1", "h"),
        ("https://h/v1/", 443, "/v1", "h"),
        ("https://h:8443", 8443, "", "h:8443"),
        ("http://[fd00::1]:8000/v1", 8000, "/v1", "[fd00::1]:8000"),
    ],
)
def test_a_base_url_is_taken_apart_once(url: str, port: int, path: str, authority: str) -> None:
    found = parsed(**endpoint(base_url=url)).endpoint
    assert (found.port, found.path, found.authority) == (port, path, authority)


def test_the_declared_host_route_changes_the_address_and_nothing_else() -> None:
    found = parsed(**endpoint(base_url="https://localhost:1/v1", connect_host="172.18.0.1")).endpoint
    assert (found.connect_host, found.host, found.authority) == ("172.18.0.1", "localhost", "localhost:1")
