"""What an endpoint can answer, and what becomes of it: passed on, recorded, or withheld."""

import asyncio
import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest

from evidence.trial.endpoint import endpoint_facts
from runs.images.gateway.model_gateway import upstream
from runs.images.gateway.model_gateway.config import Config, parse_config
from tests.gateway.authority import Authority
from tests.gateway.bodies import completion, encoded
from tests.gateway.process import (
    CREDENTIAL,
    GatewayProcess,
    RawEndpoint,
    configuration,
    error_code,
    head,
    http_answer,
    raw_endpoint,
    running,
)


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    with raw_endpoint() as served:
        yield served


@pytest.fixture
def gateway(endpoint: RawEndpoint) -> Iterator[GatewayProcess]:
    with running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as process:
        yield process


def outcome(gateway: GatewayProcess) -> tuple[str, str | None, int | None]:
    """Kind, code and status of the one line of trial 1."""
    [line] = gateway.stop().trial(1).requests
    return line.kind, line.code, line.status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_an_error_of_the_endpoint_is_passed_on_and_recorded(
    gateway: GatewayProcess, endpoint: RawEndpoint, status: int
) -> None:
    endpoint.respond = lambda _: http_answer({"error": {"message": "no"}}, status=f"{status} X")
    assert gateway.ask() == (status, b'{"error": {"message": "no"}}')
    assert outcome(gateway) == ("upstream_error", "status", status)


@pytest.mark.parametrize(("body", "code"), [(b'{"ok":true}', "no_choice"), (b"", "empty"), (b"<html>", "html")])
def test_a_2xx_that_is_no_completion_is_passed_on_unchanged_and_is_no_proof(
    gateway: GatewayProcess, endpoint: RawEndpoint, body: bytes, code: str
) -> None:
    endpoint.respond = lambda _: http_answer(body)
    assert gateway.ask() == (200, body)
    assert outcome(gateway) == ("malformed", code, 200)


def test_another_models_answer_is_passed_on_unchanged_and_is_no_proof(
    gateway: GatewayProcess, endpoint: RawEndpoint
) -> None:
    body = json.dumps(completion(model="other")).encode()
    endpoint.respond = lambda _: http_answer(body)
    assert gateway.ask() == (200, body)
    report = gateway.stop()
    assert report.trial(1).requests[0].kind == "wrong_model"
    assert endpoint_facts(report.trial(1)).completions == 0


def test_the_records_other_name_of_the_alias_counts_as_right(endpoint: RawEndpoint) -> None:
    config = configuration(f"http://127.0.0.1:{endpoint.port}/v1")
    config["endpoint"]["served_models"] = ["another", "other"]
    endpoint.respond = lambda _: http_answer(completion(model="other"))
    with running(config) as gateway:
        gateway.ask()
        assert outcome(gateway) == ("ok", None, 200)


def test_our_own_refusal_of_the_endpoints_words_has_a_code_of_its_own(endpoint: RawEndpoint) -> None:
    """There is room for two such messages of each of 64 trials. What cannot go back whole does not go back short,
    for a model may want its signature."""
    config = configuration(f"http://127.0.0.1:{endpoint.port}/v1", trials=64, max_steps=4)
    messages: list[dict[str, object]] = [{"role": "user", "content": "u"}]
    with running(config) as gateway:
        for turn in range(3):
            said = {"role": "assistant", "content": f"turn {turn}", "signature": os.urandom(400_000).hex()}
            endpoint.respond = lambda _, said=said: http_answer(completion(choices=[{"message": said}]))
            assert gateway.ask(encoded(messages=messages))[0] == 200
            messages.append({"role": "assistant", "content": f"turn {turn}"})
        assert error_code(gateway.ask(encoded(messages=messages))) == (404, "endpoint_words.not_kept")
        heard = json.loads(endpoint.heard[-1].partition(b"\r\n\r\n")[2])["messages"]
        assert [len(message.get("signature", "")) for message in heard] == [0, 800_000, 800_000]
        facts = endpoint_facts(gateway.stop().trial(1))
    assert (facts.completions, facts.incompatible, facts.refusals) == (3, 1, 0)


def test_a_redirect_is_not_followed(gateway: GatewayProcess, endpoint: RawEndpoint) -> None:
    with raw_endpoint() as elsewhere:
        headers = f"Location: http://127.0.0.1:{elsewhere.port}/v1/chat/completions\r\n"
        endpoint.respond = lambda _: http_answer(b"", status="307 Moved", headers=headers)
        assert gateway.ask()[0] == 502
        assert not elsewhere.heard
    assert outcome(gateway) == ("upstream_error", "status", 307)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (http_answer(completion(), headers="Content-Encoding: gzip\r\n"), "compressed"),
        (b"", "unreachable"),
        (b"nonsense\r\n\r\n", "not_http"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "cut"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "cut"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "not_http"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, "not_http"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * (16 * 1024 * 1024 + 1), "too_large"),
    ],
    ids=["encoded", "hung-up", "not-http", "cut", "cut-chunk", "two-lengths", "huge-head", "huge-body"],
)
def test_an_answer_that_cannot_be_used_is_withheld(
    gateway: GatewayProcess, endpoint: RawEndpoint, answer: bytes, code: str
) -> None:
    endpoint.respond = lambda _: answer
    assert error_code(gateway.ask()) == (502, code)
    assert outcome(gateway) == ("upstream_error", code, None)


def test_an_endpoint_that_does_not_answer_in_time_is_given_up(endpoint: RawEndpoint) -> None:
    endpoint.respond = lambda _: None
    with running(configuration(f"http://127.0.0.1:{endpoint.port}/v1", request_timeout_s=0.5)) as gateway:
        assert error_code(gateway.ask()) == (504, "timeout")
        assert outcome(gateway) == ("upstream_error", "timeout", None)


def test_an_endpoint_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as nobody:  # its port is taken, and nobody listens there
        nobody.bind(("127.0.0.1", 0))
        config = configuration(f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
        with running(config) as gateway:
            assert error_code(gateway.ask()) == (502, "unreachable")
            assert outcome(gateway) == ("upstream_error", "unreachable", None)


def test_an_informational_answer_is_not_the_answer(gateway: GatewayProcess, endpoint: RawEndpoint) -> None:
    endpoint.respond = lambda _: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http_answer(completion())
    assert gateway.ask()[0] == 200


def test_endless_informational_answers_are_no_answer(gateway: GatewayProcess, endpoint: RawEndpoint) -> None:
    endpoint.respond = lambda _: b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20 + http_answer(completion())
    assert error_code(gateway.ask()) == (502, "not_http")


def test_an_answer_in_ever_smaller_pieces_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "MOST_PIECES", 10)
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 11 + b"0\r\n\r\n"
    with raw_endpoint(lambda _: answer) as served:
        config = parse_config(json.dumps(configuration(f"http://127.0.0.1:{served.port}/v1")).encode())
        with pytest.raises(upstream.UpstreamFailed) as failed:
            asyncio.run(upstream.Upstream(config.endpoint, CREDENTIAL, 60.0).complete(encoded()))
    assert failed.value.code == "too_large"


@pytest.mark.parametrize("status", ["200 OK", "401 No"])
def test_an_answer_that_holds_the_credential_never_reaches_the_agent(
    gateway: GatewayProcess, endpoint: RawEndpoint, status: str
) -> None:
    endpoint.respond = lambda _: http_answer({"error": f"bad key {CREDENTIAL}"}, status=status)
    status_code, body = gateway.ask()
    assert status_code == 502 and CREDENTIAL.encode() not in body
    assert outcome(gateway)[:2] == ("upstream_error", "credential_echoed")


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(completion(id=CREDENTIAL)).replace("SENTINEL", "SENTINE\\u004C").encode(),
        b'data: {"a":"' + CREDENTIAL.replace("-", "\\u002d").encode() + b'"}\n\ndata: [DONE]\n\n',
        json.dumps({"error": CREDENTIAL}).encode("utf-16-le"),
    ],
)
@pytest.mark.parametrize("status", ["200 OK", "302 Elsewhere", "401 No", "500 Broken"])
def test_a_credential_that_is_spelt_otherwise_is_withheld_as_well(
    gateway: GatewayProcess, endpoint: RawEndpoint, status: str, body: bytes
) -> None:
    endpoint.respond = lambda _: http_answer(body, status=status)
    assert error_code(gateway.ask()) == (502, "credential_echoed")
    assert outcome(gateway)[:2] == ("upstream_error", "credential_echoed")


def test_a_credential_that_comes_in_pieces_of_a_transfer_is_withheld(
    gateway: GatewayProcess, endpoint: RawEndpoint
) -> None:
    pieces = [b'{"a":"', *(bytes([byte]) for byte in CREDENTIAL.encode()), b'"}', b""]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    endpoint.respond = lambda _: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    assert error_code(gateway.ask()) == (502, "credential_echoed")


def test_a_credential_in_the_headers_or_the_reason_goes_nowhere(gateway: GatewayProcess, endpoint: RawEndpoint) -> None:
    headers = f"X-Key: {CREDENTIAL}\r\nSet-Cookie: key={CREDENTIAL}\r\n"
    endpoint.respond = lambda _: http_answer(completion(), status=f"200 {CREDENTIAL}", headers=headers)
    body = encoded()
    answer = gateway.raw(head(1, f"Content-Length: {len(body)}\r\n") + body)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and CREDENTIAL.encode() not in answer


def test_headers_of_the_endpoint_are_not_passed_on(gateway: GatewayProcess, endpoint: RawEndpoint) -> None:
    endpoint.respond = lambda _: http_answer(completion(), headers="Set-Cookie: a=b\r\nX-Request-Id: 1\r\n")
    body = encoded()
    answer = gateway.raw(head(1, f"Content-Length: {len(body)}\r\n") + body).split(b"\r\n\r\n")[0]
    assert b"Cookie" not in answer and b"X-Request-Id" not in answer


def test_proxy_settings_of_the_environment_are_not_used(endpoint: RawEndpoint) -> None:
    with raw_endpoint() as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        env = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"), address)
        with running(configuration(f"http://127.0.0.1:{endpoint.port}/v1"), env) as gateway:
            assert gateway.ask()[0] == 200
        assert not proxy.heard and len(endpoint.heard) == 1


def test_the_default_certificates_do_not_trust_an_unknown_issuer(tmp_path: Path) -> None:
    with raw_endpoint(context=_own_certificate(tmp_path)) as served:
        env = {"SSL_CERT_FILE": str(tmp_path / "cert.pem"), "SSL_CERT_DIR": str(tmp_path)}
        with running(configuration(f"https://localhost:{served.port}/v1"), env) as gateway:
            assert error_code(gateway.ask()) == (502, "tls")
            assert outcome(gateway) == ("upstream_error", "tls", None)
        assert not served.heard


@pytest.mark.parametrize(
    ("name", "of_own", "outcome"),
    [
        ("DNS:localhost", True, (200, None)),
        ("DNS:other.example", True, (502, "tls")),  # verification stays on: the name must be the declared one
        ("DNS:localhost", False, (502, "tls")),
    ],
)
def test_the_records_authorities_are_the_only_ones_that_are_believed(
    tmp_path: Path, name: str, of_own: bool, outcome: tuple[int, str | None]
) -> None:
    (tmp_path / "stranger").mkdir()
    own, stranger = Authority(tmp_path), Authority(tmp_path / "stranger")
    with raw_endpoint(context=own.server(name)) as served:
        config = configuration(f"https://localhost:{served.port}/v1")
        config["endpoint"]["ca_pem"] = (own if of_own else stranger).pem
        with running(config) as gateway:
            status, body = gateway.ask()
            assert (status, json.loads(body)["error"]["code"] if status != 200 else None) == outcome
        assert len(served.heard) == (status == 200)


def test_authorities_of_the_size_of_a_whole_list_reach_the_gateway(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with raw_endpoint(context=authority.server("DNS:localhost")) as served:
        config = configuration(f"https://localhost:{served.port}/v1")
        config["endpoint"]["ca_pem"] = (
            Path(certifi.where()).read_text(encoding="ascii", errors="ignore") + authority.pem
        )
        with running(config) as gateway:
            assert gateway.ask()[0] == 200


def test_the_records_headers_are_sent_with_each_request_beside_the_gateways_own(endpoint: RawEndpoint) -> None:
    config = configuration(f"http://127.0.0.1:{endpoint.port}/v1")
    config["endpoint"]["headers"] = {"OpenAI-Organization": "org-7", "X-Title": "a b"}
    with running(config) as gateway:
        assert [gateway.ask()[0] for _ in range(2)] == [200, 200]
    for heard in endpoint.heard:
        lines = heard.split(b"\r\n\r\n")[0].split(b"\r\n")
        assert {b"OpenAI-Organization: org-7", b"X-Title: a b", b"Authorization: Bearer " + CREDENTIAL.encode()} <= {
            *lines
        }


@pytest.mark.parametrize(("host", "expected"), [("localhost", "200"), ("other.example", "tls")])
def test_a_certificate_is_verified_with_the_name_that_was_declared(tmp_path: Path, host: str, expected: str) -> None:
    with raw_endpoint(context=_own_certificate(tmp_path)) as served:
        line = json.dumps(configuration(f"https://{host}:{served.port}/v1")).encode()
        assert asyncio.run(_ask_by_tls(parse_config(line), tmp_path / "cert.pem")) == expected


def _resolved(*addresses: str) -> upstream.Resolver:
    """A resolver that has one answer for every name."""

    async def resolve(host: str, port: int) -> list[str]:
        return [*addresses]

    return resolve


async def _ask_by_tls(config: Config, trusted: Path) -> str:
    context = upstream.verifying_context()
    context.load_verify_locations(trusted)
    client = upstream.Upstream(config.endpoint, CREDENTIAL, 5.0, context, _resolved("127.0.0.1"))
    try:
        return str((await client.complete(encoded())).status)
    except upstream.UpstreamFailed as failure:
        return failure.code


def test_an_address_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("the resolver was asked"))
    assert [asyncio.run(upstream.resolve(host, 1)) for host in ("127.0.0.1", "::1")] == [["127.0.0.1"], ["::1"]]


def _own_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for `localhost`, signed by itself."""
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
