"""Who may ask what? The real program, isolated as in its container, asked over real sockets."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from runs.engine.network.gateway import trial_token
from tests.gateway.bodies import ALIAS, completion, encoded, request
from tests.gateway.process import (
    CREDENTIAL,
    PATIENCE_S,
    RUN_KEY,
    GatewayProcess,
    RawEndpoint,
    configuration,
    error_code,
    head,
    http_answer,
    raw_endpoint,
    running,
)

BODY = encoded()
LENGTH = f"Content-Length: {len(BODY)}\r\n"


@pytest.fixture
def endpoint() -> Iterator[RawEndpoint]:
    with raw_endpoint() as served:
        yield served


@pytest.fixture
def gateway(endpoint: RawEndpoint) -> Iterator[GatewayProcess]:
    with running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as process:
        yield process


def refused(gateway: GatewayProcess, trial: int | None = 1) -> dict[str, int]:
    report = gateway.stop()
    assert report.intact
    return dict(report.unattributed if trial is None else report.trial(trial).refused)


def test_an_agents_request_is_answered_and_attributed_by_its_token(gateway: GatewayProcess) -> None:
    assert gateway.ask(trial=2)[0] == 200
    report = gateway.stop()
    assert report.intact and set(report.trials) == {2}
    assert report.trial(2).completions[0].completion_tokens == 7


def test_the_answer_reaches_the_agent_unchanged(gateway: GatewayProcess) -> None:
    assert gateway.ask()[1] == json.dumps(completion()).encode()


def test_the_endpoint_hears_own_headers_and_the_rewritten_body_only(
    gateway: GatewayProcess, endpoint: RawEndpoint
) -> None:
    spoofed = {
        "Cookie": "a=b", "X-Forwarded-For": "1.2.3.4", "X-Session-ID": "s", "Host": "elsewhere",
        "OpenAI-Organization": "o", "Proxy-Authorization": "p", "User-Agent": "agent", "TE": "trailers",
        "Accept-Encoding": "br",
    }  # fmt: skip
    assert gateway.ask(json.dumps(request(), indent=2).encode(), headers=spoofed)[0] == 200
    [heard] = endpoint.heard
    start, _, body = heard.partition(b"\r\n\r\n")
    first, *lines = start.decode().split("\r\n")
    sent = dict(line.split(": ", 1) for line in lines)
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert sent == {
        "Host": f"127.0.0.1:{endpoint.port}", "User-Agent": "benchsite-gateway", "Connection": "close",
        "Authorization": f"Bearer {CREDENTIAL}", "Content-Type": "application/json",
        "Accept": "application/json", "Accept-Encoding": "identity", "Content-Length": str(len(body)),
    }  # fmt: skip
    assert body == json.dumps(request(), ensure_ascii=False, separators=(",", ":")).encode()


def test_without_a_credential_no_authorization_is_sent(endpoint: RawEndpoint) -> None:
    config = configuration(f"http://127.0.0.1:{endpoint.port}/v1") | {"credential": None}
    with running(config) as gateway:
        assert gateway.ask()[0] == 200
    assert b"uthorization" not in endpoint.heard[0]


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer wrong",
        f"Bearer {trial_token(RUN_KEY, 4)}",
        f"Bearer {trial_token(bytes(32), 1)}",
        f"bearer {trial_token(RUN_KEY, 1)}",
        f"Bearer {trial_token(RUN_KEY, 1)} ",
        f"Bearer {CREDENTIAL}",
    ],
    ids=["none", "wrong", "trial-beyond-the-run", "another-run", "case", "space-is-stripped", "credential"],
)
def test_nobody_without_a_token_of_this_run_may_ask(
    gateway: GatewayProcess, endpoint: RawEndpoint, authorization: str
) -> None:
    status, _ = gateway.ask(headers={"Authorization": authorization})
    if authorization.endswith(" "):
        assert status == 200  # optional white space around a header's value is not part of it
    else:
        assert status == 401 and not endpoint.heard
        assert refused(gateway, None) == {"token": 1}


def test_two_authorization_headers_are_no_token(gateway: GatewayProcess) -> None:
    second = f"Authorization: Bearer {trial_token(RUN_KEY, 2)}\r\n"
    assert b" 401 " in gateway.raw(head(1, second + LENGTH) + BODY)


def test_another_trials_session_header_changes_nothing_but_a_count(gateway: GatewayProcess) -> None:
    for session in ("one__agent", "two__agent"):
        assert gateway.ask(trial=1, headers={"X-Session-ID": session})[0] == 200
    report = gateway.stop()
    assert [line.session_matches for line in report.trial(1).requests] == [True, False]
    assert set(report.trials) == {1}


@pytest.mark.parametrize(
    "target",
    [
        "POST /v1/chat/completions?x=1 HTTP/1.1",
        "POST /v1/chat/completions/ HTTP/1.1",
        "POST //v1/chat/completions HTTP/1.1",
        "POST /v1/chat%2fcompletions HTTP/1.1",
        "POST /v1/../v1/chat/completions HTTP/1.1",
        "POST /V1/chat/completions HTTP/1.1",
        "POST http://g/v1/chat/completions HTTP/1.1",
        "POST /v1/responses HTTP/1.1",
        "POST /v1/embeddings HTTP/1.1",
        "GET /v1/chat/completions HTTP/1.1",
        "PUT /v1/chat/completions HTTP/1.1",
        "CONNECT g:80 HTTP/1.1",
        "GET / HTTP/1.1",
        "GET /v1/models/alias HTTP/1.1",
        "POST /v1/models HTTP/1.1",
    ],
)
def test_every_other_path_and_method_is_not_found(gateway: GatewayProcess, endpoint: RawEndpoint, target: str) -> None:
    assert b" 404 " in gateway.raw(head(1, LENGTH, target) + BODY).split(b"\r\n")[0]
    assert not endpoint.heard and refused(gateway, None) == {"path": 1}


def test_the_models_list_names_the_alias_only_and_is_no_completion(
    gateway: GatewayProcess, endpoint: RawEndpoint
) -> None:
    status, body = gateway.ask(method="GET", path="/v1/models")
    assert status == 200 and [model["id"] for model in json.loads(body)["data"]] == [ALIAS]
    report = gateway.stop()
    assert not endpoint.heard and not report.trial(1).completions and report.trial(1).refused == {"models": 1}


def test_a_refused_body_gets_404_so_that_the_agent_stops(gateway: GatewayProcess) -> None:
    assert error_code(gateway.ask(encoded(store=True))) == (404, "body.unknown_field")
    assert refused(gateway) == {"body.unknown_field": 1}


@pytest.mark.parametrize(
    ("extra", "body", "code"),
    [
        (f"{LENGTH}Transfer-Encoding: chunked\r\n", b"0\r\n\r\n" + BODY, "http.two_framings"),
        (f"Transfer-Encoding: chunked\r\n{LENGTH}", b"0\r\n\r\n" + BODY, "http.two_framings"),
        (f"{LENGTH}Content-Length: 5\r\n", BODY, "http.malformed"),
        ("Content-Length: -5\r\n", BODY, "http.malformed"),
        ("Content-Length: 0x10\r\n", BODY, "http.malformed"),
        ("Transfer-Encoding: gzip\r\n", BODY, "http.malformed"),
        ("Transfer-Encoding: xchunked\r\n", BODY, "http.malformed"),
        ("Transfer-Encoding : chunked\r\n", BODY, "http.malformed"),
        ("Transfer-Encoding: chunked\r\n", b"zz\r\n" + BODY, "http.malformed"),
        (f"{LENGTH}X: a\x00b\r\n", BODY, "http.malformed"),
        (f"{LENGTH}Content-Encoding: gzip\r\n", BODY, "http.content_encoding"),
        ("Content-Length: 4194305\r\n", b"", "body.size"),
        (f"X: {'x' * 20_000}\r\n", b"", "http.head_size"),
        (f"X: {'x' * 200_000}\r\n", b"", "http.malformed"),
    ],
)
def test_smuggled_and_malformed_requests_reach_nobody(
    gateway: GatewayProcess, endpoint: RawEndpoint, extra: str, body: bytes, code: str
) -> None:
    answer = gateway.raw(head(1, extra) + body)
    assert answer.startswith(b"HTTP/1.1 404 ") and code.encode() in answer
    assert answer.count(b"HTTP/1.1") == 1 and not endpoint.heard


def test_a_chunked_body_is_refused_at_the_bound_and_not_at_its_end(
    gateway: GatewayProcess, endpoint: RawEndpoint
) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    answer = gateway.raw(head(1, "Transfer-Encoding: chunked\r\n") + chunk * 5)
    assert b"body.size" in answer and not endpoint.heard


def test_a_chunked_body_within_the_bound_is_answered(gateway: GatewayProcess) -> None:
    chunked = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"
    assert gateway.raw(head(1, "Transfer-Encoding: chunked\r\n") + chunked).startswith(b"HTTP/1.1 200 ")


def test_pipelined_requests_are_refused_together(gateway: GatewayProcess, endpoint: RawEndpoint) -> None:
    answer = gateway.raw((head(1, LENGTH) + BODY) * 2)
    assert answer.count(b"HTTP/1.1") == 1 and b"http.pipelined" in answer and not endpoint.heard


def test_a_body_of_another_type_is_refused(gateway: GatewayProcess) -> None:
    assert error_code(gateway.ask(headers={"Content-Type": "text/plain"})) == (404, "http.content_type")


def test_after_its_steps_a_trial_is_refused_and_the_others_are_not(gateway: GatewayProcess) -> None:
    answers = [gateway.ask(trial=1)[0] for _ in range(7)]
    assert answers == [200] * 5 + [404] * 2
    assert gateway.ask(trial=2)[0] == 200
    assert refused(gateway) == {"steps_used_up": 2}


def test_failed_requests_use_up_steps_too() -> None:
    with (
        raw_endpoint(lambda _: http_answer({}, status="503 Busy")) as endpoint,
        running(configuration(f"http://127.0.0.1:{endpoint.port}/v1", max_steps=2)) as gateway,
    ):
        assert [gateway.ask()[0] for _ in range(3)] == [503, 503, 404]
        assert len(endpoint.heard) == 2


def test_a_second_request_at_the_same_time_is_refused_and_other_trials_go_on() -> None:
    def answer(asked: bytes) -> bytes | None:
        return None if b'"wait"' in asked else http_answer(completion())

    with (
        raw_endpoint(answer) as endpoint,
        running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as gateway,
    ):
        waiting = threading.Thread(target=gateway.ask, args=(encoded(messages=[{"role": "user", "content": "wait"}]),))
        waiting.start()
        while not endpoint.heard:
            time.sleep(0.01)
        assert error_code(gateway.ask()) == (404, "busy")
        assert gateway.ask(trial=2)[0] == 200
        endpoint.release.set()
        waiting.join()
        assert refused(gateway) == {"busy": 1}


def test_who_hangs_up_frees_the_trial_at_once() -> None:
    def answer(asked: bytes) -> bytes | None:
        return None if b'"wait"' in asked else http_answer(completion())

    with (
        raw_endpoint(answer) as endpoint,
        running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as gateway,
    ):
        body = encoded(messages=[{"role": "user", "content": "wait"}])
        with socket.create_connection(("127.0.0.1", gateway.port)) as link:
            link.sendall(head(1, f"Content-Length: {len(body)}\r\n") + body)
            while not endpoint.heard:
                time.sleep(0.01)
        while gateway.ask()[0] != 200:
            time.sleep(0.01)
        report = gateway.stop()
    assert [line.code for line in report.trial(1).forwarded] == ["client_gone", None]


def test_who_closes_the_sending_half_has_hung_up_and_spoils_only_that_request() -> None:
    with (
        raw_endpoint(lambda _: None) as endpoint,
        running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as gateway,
    ):
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S) as link:
            link.sendall(head(1, LENGTH) + BODY)
            while not endpoint.heard:
                time.sleep(0.01)
            link.shutdown(socket.SHUT_WR)
            assert link.recv(1024) == b""
        endpoint.respond = lambda _: http_answer(completion())
        assert gateway.ask()[0] == 200
        report = gateway.stop()
    assert [(line.kind, line.code) for line in report.trial(1).forwarded] == [("refused", "client_gone"), ("ok", None)]


def test_a_flood_of_ten_thousand_requests_pushes_out_no_proof(gateway: GatewayProcess) -> None:
    assert gateway.ask()[0] == 200
    for _ in range(10_000):
        gateway.raw(b"GET /flood HTTP/1.1\r\nHost: g\r\n\r\n")
    assert gateway.ask()[0] == 200
    report = gateway.stop()
    assert report.intact and report.lines < 20
    assert report.unattributed == {"path": 10_000} and len(report.trial(1).completions) == 2


def test_many_open_connections_are_bounded_and_counted(gateway: GatewayProcess) -> None:
    links = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(80)]
    for link in links[70:]:
        link.settimeout(PATIENCE_S)
        assert link.recv(1) == b""
    for link in links:
        link.close()
    report = gateway.stop()
    assert report.unattributed == {"connections": 16}


def test_the_credential_and_the_run_key_are_in_no_output(gateway: GatewayProcess) -> None:
    gateway.ask()
    gateway.ask(headers={"Authorization": f"Bearer {CREDENTIAL}"})
    gateway.stop()
    for secret in (CREDENTIAL, RUN_KEY.hex(), trial_token(RUN_KEY, 1)):
        assert secret.encode() not in gateway.output + gateway.errors
