"""The pass-through APIs of the real program over real sockets: who may ask what, what goes on, what the ledger says."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runs.documents.ledger import LedgerReport
from runs.engine.network.gateway import trial_token
from runs.scripted.apis import CHAT, COUNT, EMBEDDINGS, MESSAGES, PATHS, RESPONSES
from runs.scripted.server import ScriptedServer
from tests.gateway.bodies import ALIAS, completion
from tests.gateway.process import (
    CREDENTIAL,
    PATIENCE_S,
    RUN_KEY,
    GatewayProcess,
    RawEndpoint,
    configuration,
    error_code,
    http_answer,
    raw_endpoint,
    running,
)

APIS = ["chat-completions", "responses", "embeddings", "messages", "count-tokens", "models"]
MODEL, SECOND = "scripted-positive", "scripted-negative"
DONE = b'data: {"model": "alias", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n'
END = b"data: [DONE]\n\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def plan(**changes: Any) -> dict[str, Any]:
    return {"apis": APIS, "models": [ALIAS, "second"], "trial_timeout_s": 600.0} | changes


def asking(path: str, model: str = ALIAS, **more: Any) -> bytes:
    said = {"input": "hello"} if path in (RESPONSES, EMBEDDINGS) else {"messages": [{"role": "user", "content": "hi"}]}
    return json.dumps({"model": model, **said, **more}).encode()


def head(path: str, extra: str = "", trial: int = 1) -> bytes:
    token = trial_token(RUN_KEY, trial)
    lines = f"POST {path} HTTP/1.1\r\nHost: g\r\nx-api-key: {token}\r\nContent-Type: application/json\r\n"
    return f"{lines}{extra}\r\n".encode("latin-1")


@contextmanager
def passing(respond: Callable[[bytes], bytes | None], **limits: Any) -> Iterator[tuple[GatewayProcess, RawEndpoint]]:
    pass_through = plan(**limits.pop("plan", {}))
    with raw_endpoint(respond) as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/v1"
        with running(configuration(url, pass_through, **limits)) as gateway:
            yield gateway, endpoint


@pytest.fixture
def spoken() -> Iterator[GatewayProcess]:
    """A gateway before the scripted endpoint, which speaks every API."""
    with ScriptedServer("127.0.0.1", 0, CREDENTIAL) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        models = [MODEL, SECOND, "scripted-unavailable", "scripted-malformed", "scripted-wrong-model"]
        config = configuration(f"http://127.0.0.1:{server.port}/v1", plan(models=models), max_steps=50)
        config["endpoint"]["model"] = MODEL
        try:
            with running(config) as gateway:
                yield gateway
        finally:
            server.shutdown()
            thread.join()


def lines(report: LedgerReport, trial: int = 1) -> list[tuple[Any, ...]]:
    assert report.intact
    return [(line.api, line.kind, line.code) for line in report.trial(trial).requests]


def test_each_api_is_answered_and_has_its_line(spoken: GatewayProcess) -> None:
    for path in PATHS:
        assert spoken.ask(asking(path, MODEL), path=path)[0] == 200
    for path in (CHAT, RESPONSES, MESSAGES):
        status, body = spoken.ask(asking(path, SECOND, stream=True), path=path)
        assert status == 200 and body.startswith((b"data: ", b"event: "))
    report = spoken.stop()
    assert lines(report) == [
        ("chat-completions", "ok", None),
        ("responses", "ok", None),
        ("embeddings", "answer", None),
        ("messages", "ok", None),
        ("count-tokens", "answer", None),
        ("chat-completions", "ok", None),
        ("responses", "ok", None),
        ("messages", "ok", None),
    ]
    assert len(report.trial(1).completions) == 6


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_what_the_endpoint_does_is_recorded_for_what_it_is(spoken: GatewayProcess, path: str, stream: bool) -> None:
    expected = {
        "scripted-unavailable": (503, "upstream_error", "status"),
        "scripted-wrong-model": (200, "wrong_model", None),
        "scripted-malformed": (200, "malformed", None),
    }
    for model, (status, _, _) in expected.items():
        assert spoken.ask(asking(path, model, stream=stream), path=path)[0] == status
    seen = lines(spoken.stop())
    assert [kind for _, kind, _ in seen] == [kind for _, kind, _ in expected.values()]


def test_the_token_comes_in_either_header_and_two_trials_are_none() -> None:
    with passing(lambda _: http_answer(completion())) as (gateway, endpoint):
        one, two = trial_token(RUN_KEY, 1), trial_token(RUN_KEY, 2)
        for headers, expected in (
            ({"Authorization": "", "x-api-key": one}, 200),
            ({"Authorization": f"Bearer {one}", "x-api-key": one}, 200),
            ({"Authorization": "Bearer sk-placeholder", "x-api-key": two}, 200),
            ({"Authorization": f"Bearer {one}", "x-api-key": two}, 401),
            ({"Authorization": "", "x-api-key": f"Bearer {one}"}, 401),
            ({"Authorization": "", "x-api-key": CREDENTIAL}, 401),
            ({"Authorization": "", "x-api-key": ""}, 401),
        ):
            assert gateway.ask(asking(CHAT), headers=headers)[0] == expected, headers
        assert not any(token.encode() in heard for heard in endpoint.heard for token in (one, two))
        report = gateway.stop()
        assert [len(report.trial(trial).forwarded) for trial in (1, 2)] == [2, 1]
        assert report.unattributed == {"token": 4}


@pytest.mark.parametrize(
    ("path", "credential"),
    [
        (CHAT, ("authorization", f"Bearer {CREDENTIAL}")),
        (RESPONSES, ("authorization", f"Bearer {CREDENTIAL}")),
        (MESSAGES, ("x-api-key", CREDENTIAL)),
        (COUNT, ("x-api-key", CREDENTIAL)),
    ],
)
def test_the_endpoint_gets_the_credential_where_its_api_has_it_and_no_other_header(
    path: str, credential: tuple[str, str]
) -> None:
    with passing(lambda _: http_answer({})) as (gateway, endpoint):
        spoofed = {
            "Cookie": "a=b", "X-Forwarded-For": "1.2.3.4", "OpenAI-Organization": "o", "User-Agent": "agent",
            "anthropic-version": "2026-10-21", "anthropic-beta": "one,two", "x-stainless-lang": "python",
            "anthropic-dangerous": "x", "Accept-Encoding": "br",
        }  # fmt: skip
        gateway.ask(asking(path), path=f"{path}?beta=true", headers=spoofed)
        [heard] = endpoint.heard
        start, _, body = heard.partition(b"\r\n\r\n")
        first, *rest = start.decode().split("\r\n")
        sent = {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}
        assert first == f"POST {path}?beta=true HTTP/1.1"
        assert sent == {
            "host": f"127.0.0.1:{endpoint.port}", "user-agent": "benchsite-gateway", "connection": "close",
            "content-type": "application/json", "accept": "application/json, text/event-stream",
            "accept-encoding": "identity", "content-length": str(len(body)), credential[0]: credential[1],
            "anthropic-version": "2026-10-21", "anthropic-beta": "one,two",
        }  # fmt: skip


def test_a_header_of_the_record_takes_the_place_of_the_askers() -> None:
    with raw_endpoint(lambda _: http_answer({})) as endpoint:
        config = configuration(f"http://127.0.0.1:{endpoint.port}/v1", plan())
        config["endpoint"]["headers"] = {"Anthropic-Beta": "declared"}
        with running(config) as gateway:
            asked = {"anthropic-beta": "asked", "anthropic-version": "2026-10-21"}
            gateway.ask(asking(MESSAGES), path=MESSAGES, headers=asked)
        sent = endpoint.heard[0].lower()
        assert sent.count(b"anthropic-beta: declared") == 1 and b"asked" not in sent and b"2026-10-21" in sent


def test_vectors_of_another_model_are_another_models_answer() -> None:
    said = {"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 3}}
    with passing(lambda _: http_answer(said | {"model": "alias-v2"})) as (gateway, _):
        assert gateway.ask(asking(EMBEDDINGS), path=EMBEDDINGS)[0] == 200
        report = gateway.stop()
    assert report.intact and lines(report) == [("embeddings", "wrong_model", None)]


def test_without_a_credential_none_is_sent_and_no_key_of_the_asker() -> None:
    with raw_endpoint(lambda _: http_answer({})) as endpoint:
        config = configuration(f"http://127.0.0.1:{endpoint.port}/v1", plan()) | {"credential": None}
        with running(config) as gateway:
            gateway.ask(asking(MESSAGES), path=MESSAGES, headers={"x-api-key": trial_token(RUN_KEY, 1)})
        assert b"api-key" not in endpoint.heard[0].lower() and b"authorization" not in endpoint.heard[0].lower()


def test_the_models_are_the_declared_ones_in_the_form_of_the_api_that_asks() -> None:
    with passing(lambda _: None) as (gateway, endpoint):
        listed = json.loads(gateway.ask(method="GET", path="/v1/models")[1])
        assert [model["id"] for model in listed["data"]] == [ALIAS, "second"]
        versioned = {"anthropic-version": "2023-06-01"}
        listed = json.loads(gateway.ask(method="GET", path="/v1/models?limit=20", headers=versioned)[1])
        assert listed["data"][0]["type"] == "model" and listed["has_more"] is False
        assert json.loads(gateway.ask(method="GET", path="/v1/models/second")[1])["id"] == "second"
        assert gateway.ask(method="GET", path="/v1/models/other")[0] == 404
        assert not endpoint.heard


def test_codex_asking_for_an_upgrade_is_told_at_once_and_not_counted() -> None:
    with passing(lambda _: None) as (gateway, _):
        assert [gateway.ask(method="GET", path=RESPONSES)[0] for _ in range(7)] == [404] * 7
        report = gateway.stop()
        assert report.intact and report.lines == 2 and not report.unattributed


def test_an_api_that_the_plan_does_not_name_is_not_there() -> None:
    with passing(lambda _: http_answer(completion()), plan={"apis": ["chat-completions"]}) as (gateway, _):
        assert gateway.ask(asking(CHAT))[0] == 200
        for path in (RESPONSES, EMBEDDINGS, MESSAGES, COUNT):
            assert error_code(gateway.ask(asking(path), path=path)) == (404, "path")
        assert gateway.ask(method="GET", path="/v1/models")[0] == 404


def test_an_expired_trials_token_is_no_token_any_more_and_its_stream_ends() -> None:
    def respond(_: bytes) -> bytes | None:
        return None

    with passing(respond, plan={"trial_timeout_s": 1.0}, max_steps=10) as (gateway, _):
        status, _ = gateway.ask(asking(CHAT))  # answered by the limit, when the trial is over
        assert status == 504
        assert error_code(gateway.ask(asking(CHAT))) == (401, "token_expired")
        report = gateway.stop()
        assert lines(report) == [
            ("chat-completions", "upstream_error", "timeout"),
            ("chat-completions", "refused", "token_expired"),
        ]


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 413, 429, 500, 503, 529])
def test_an_error_goes_on_as_the_endpoint_gave_it_with_the_time_to_wait(status: int) -> None:
    said = http_answer({"error": {"message": "m"}}, status=f"{status} Said", headers="Retry-After: 7\r\nX-Own: v\r\n")
    with passing(lambda _: said) as (gateway, _):
        link = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE_S)
        link.request("POST", MESSAGES, asking(MESSAGES, stream=True), headers_of())
        answer = link.getresponse()
        assert (answer.status, json.loads(answer.read())) == (status, {"error": {"message": "m"}})
        assert answer.headers["Retry-After"] == ("7" if status in (429, 503) else None)
        assert answer.headers["X-Own"] is None
        link.close()
        [line] = gateway.stop().trial(1).requests
        assert (line.kind, line.status) == ("upstream_error", status)


def headers_of(trial: int = 1) -> dict[str, str]:
    return {"x-api-key": trial_token(RUN_KEY, trial), "Content-Type": "application/json"}


def test_a_redirect_is_followed_by_nobody() -> None:
    said = http_answer(b"", status="307 Elsewhere", headers="Location: http://127.0.0.1:1/v1\r\n")
    with passing(lambda _: said) as (gateway, _):
        assert gateway.ask(asking(CHAT))[0] == 502


class Paced:
    """An endpoint that sends its parts one by one, when it is told to."""

    def __init__(self, *parts: bytes, ends: bool = True) -> None:
        self.parts, self.ends = parts, ends
        self.go = threading.Semaphore(0)
        self.gone = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "Paced":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.release(1_000)
        self.socket.close()
        self.thread.join()

    def _serve(self) -> None:
        link, _ = self.socket.accept()
        with link:
            data = b""
            while b"\r\n\r\n" not in data or not data.endswith(b"}"):
                data += link.recv(65536)
            try:
                for part in self.parts:
                    self.go.acquire(timeout=PATIENCE_S)
                    link.sendall(part)
                if not self.ends:
                    link.settimeout(PATIENCE_S)
                    link.recv(1)
            except OSError:
                pass
            self.gone.set()


@contextmanager
def before(paced: Paced, **limits: Any) -> Iterator[GatewayProcess]:
    url = f"http://127.0.0.1:{paced.socket.getsockname()[1]}/v1"
    with running(configuration(url, plan(), **limits)) as gateway:
        yield gateway


def read_until(link: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        piece = link.recv(65536)
        assert piece, data
        data += piece
    return data


def ask_raw(gateway: GatewayProcess, body: bytes) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S)
    link.sendall(head(CHAT, f"Content-Length: {len(body)}\r\n") + body)
    return link


def test_a_stream_goes_on_as_it_comes_and_its_line_stands_before_its_end_does() -> None:
    first = b'data: {"model": "alias", "choices": [{"index": 0, "delta": {"content": "first"}}]}\n\n'
    with Paced(STREAM_HEAD + chunk(first), chunk(DONE + END) + b"0\r\n\r\n") as paced, before(paced) as gateway:
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            paced.go.release()
            assert b"[DONE]" not in read_until(link, b"first")
            paced.go.release()
            assert read_until(link, b"\r\n0\r\n\r\n").endswith(chunk(DONE + END) + b"0\r\n\r\n")
        assert lines(gateway.stop()) == [("chat-completions", "ok", None)]


def test_who_hangs_up_on_the_last_event_has_a_whole_answer() -> None:
    """Clients close as soon as they read the end, before the connection's own."""
    with Paced(STREAM_HEAD + chunk(DONE + END), ends=False) as paced, before(paced) as gateway:
        paced.go.release()
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            read_until(link, b"[DONE]")
        assert lines(gateway.stop()) == [("chat-completions", "ok", None)]


def test_who_hangs_up_in_the_middle_ends_the_endpoints_stream_too() -> None:
    with Paced(STREAM_HEAD + chunk(DONE), ends=False) as paced, before(paced) as gateway:
        paced.go.release()
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            read_until(link, b"delta")
        assert paced.gone.wait(PATIENCE_S)
        while gateway.ask(method="GET", path="/v1/models")[0] != 200:
            time.sleep(0.01)
        assert lines(gateway.stop())[0] == ("chat-completions", "refused", "client_gone")


@pytest.mark.parametrize(
    ("parts", "code", "kind"),
    [
        ([STREAM_HEAD + chunk(DONE)], "cut", "upstream_error"),
        ([STREAM_HEAD + chunk(DONE) + b"0\r\n\r\n"], "event_stream_cut", "malformed"),
        ([STREAM_HEAD + chunk(DONE + b"data: [DO") + b"0\r\n\r\n"], "event_stream_cut", "malformed"),
        ([STREAM_HEAD + chunk(b"data: {]\n\n" + END) + b"0\r\n\r\n"], "event", "malformed"),
        ([STREAM_HEAD + b"zz\r\n"], "cut", "upstream_error"),
    ],
)
def test_a_stream_that_is_no_whole_answer_has_no_end_or_no_completion(parts: list[bytes], code: str, kind: str) -> None:
    with Paced(*parts) as paced, before(paced) as gateway:
        paced.go.release(len(parts))
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            data = b""
            while piece := link.recv(65536):
                data += piece
        assert data.endswith(b"0\r\n\r\n") is (kind == "malformed")
        assert lines(gateway.stop()) == [("chat-completions", kind, code)]


def test_a_switch_in_the_middle_of_a_stream_leaves_no_end_and_its_line() -> None:
    with Paced(STREAM_HEAD + chunk(DONE), ends=False) as paced, before(paced) as gateway:
        paced.go.release()
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            read_until(link, b"delta")
            report = gateway.stop()
            rest = b""
            while piece := link.recv(65536):
                rest += piece
        assert paced.gone.wait(PATIENCE_S) and not rest.endswith(b"0\r\n\r\n")
        assert lines(report) == [("chat-completions", "refused", "closing")]


def test_a_stream_that_never_ends_is_ended_by_time() -> None:
    with Paced(STREAM_HEAD + chunk(DONE), ends=False) as paced, before(paced, request_timeout_s=1.0) as gateway:
        paced.go.release()
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            data = b""
            while piece := link.recv(65536):
                data += piece
        assert b"delta" in data and not data.endswith(b"0\r\n\r\n")
        assert lines(gateway.stop()) == [("chat-completions", "upstream_error", "timeout")]


def test_a_stream_that_never_ends_is_ended_by_bytes() -> None:
    event = b": " + b"x" * 65_000 + b"\n\n"
    with Paced(STREAM_HEAD, *[chunk(event)] * 400) as paced, before(paced) as gateway:
        paced.go.release(1_000)
        size = 0
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            while piece := link.recv(65536):
                size += len(piece)
        assert 15 * 2**20 < size < 17 * 2**20
        assert lines(gateway.stop()) == [("chat-completions", "upstream_error", "too_large")]


def test_a_silent_endpoint_is_answered_by_the_limit() -> None:
    with passing(lambda _: None, request_timeout_s=0.5) as (gateway, _):
        assert error_code(gateway.ask(asking(MESSAGES, stream=True), path=MESSAGES)) == (504, "timeout")


@pytest.mark.parametrize("stream", [False, True])
def test_the_credential_goes_to_nobody(stream: bool) -> None:
    said = {"model": ALIAS, "choices": [{"index": 0, "delta": {"content": f"key {CREDENTIAL}"}}]}
    event = STREAM_HEAD + chunk(DONE) + chunk(b"data: " + json.dumps(said).encode() + b"\n\n" + END) + b"0\r\n\r\n"
    with passing(lambda _: event if stream else http_answer(said)) as (gateway, _):
        body = asking(CHAT, stream=stream)
        with ask_raw(gateway, body) as link:
            data = b""
            while piece := link.recv(65536):
                data += piece
        assert CREDENTIAL.encode() not in data
        assert lines(gateway.stop()) == [("chat-completions", "upstream_error", "credential_echoed")]


def test_the_credential_goes_to_nobody_in_pieces_either() -> None:
    half = len(CREDENTIAL) // 2
    said = [
        b"data: "
        + json.dumps({"model": ALIAS, "choices": [{"index": 0, "delta": {"content": text}}]}).encode()
        + b"\n\n"
        for text in ("first", f"key {CREDENTIAL[:half]}", CREDENTIAL[half:])
    ]
    with Paced(STREAM_HEAD, *map(chunk, said), chunk(END)) as paced, before(paced) as gateway:
        paced.go.release(5)
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            data = b""
            while piece := link.recv(65536):
                data += piece
        assert b"first" in data and CREDENTIAL[:half].encode() not in data
        report = gateway.stop()
        assert lines(report) == [("chat-completions", "upstream_error", "credential_echoed")]
        assert report.trial(1).requests[0].bytes_out == len(said[0])


def test_what_only_looked_like_its_beginning_goes_on() -> None:
    said = [
        b"data: "
        + json.dumps({"model": ALIAS, "choices": [{"index": 0, "delta": {"content": text}}]}).encode()
        + b"\n\n"
        for text in ("first", CREDENTIAL[:-1], "other", CREDENTIAL[:-1])
    ]
    with Paced(STREAM_HEAD, *map(chunk, said), chunk(END) + b"0\r\n\r\n") as paced, before(paced) as gateway:
        with ask_raw(gateway, asking(CHAT, stream=True)) as link:
            paced.go.release(4)
            read_until(link, said[2])  # before the stream's end is there
            paced.go.release(2)
            assert read_until(link, b"\r\n0\r\n\r\n").endswith(said[3] + END + b"\r\n0\r\n\r\n")
        assert lines(gateway.stop()) == [("chat-completions", "ok", None)]


def test_eight_requests_of_a_trial_go_at_once_and_the_rest_waits() -> None:
    waiting = threading.Event()

    def respond(_: bytes) -> bytes | None:
        waiting.wait(PATIENCE_S)
        return http_answer(completion())

    with passing(respond, max_steps=40) as (gateway, endpoint):
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda: statuses.append(gateway.ask(asking(CHAT))[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        while len(endpoint.heard) < 8:
            time.sleep(0.01)
        assert gateway.ask(method="GET", path="/v1/models", trial=2)[0] == 200  # the others' way is free
        assert len(endpoint.heard) == 8
        waiting.set()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 20 and len(endpoint.heard) == 20


def test_after_its_requests_a_trial_is_refused_and_the_others_are_not() -> None:
    with passing(lambda _: http_answer(completion()), max_steps=3) as (gateway, _):
        assert [gateway.ask(asking(CHAT))[0] for _ in range(5)] == [200] * 3 + [404] * 2
        assert gateway.ask(asking(CHAT), trial=2)[0] == 200
        assert gateway.stop().trial(1).refused == {"steps_used_up": 2}


@pytest.mark.parametrize("path", PATHS)
def test_the_escapes_are_tried_on_each_api(path: str) -> None:
    body = asking(path)
    length = f"Content-Length: {len(body)}\r\n"
    with passing(lambda _: http_answer({}), max_steps=50) as (gateway, endpoint):
        refused = [
            (gateway.raw(head(path, length + "Transfer-Encoding: chunked\r\n") + body), b"http.two_framings"),
            (gateway.raw(head(path, length + "Content-Length: 5\r\n") + body), b"http.malformed"),
            (gateway.raw(head(path, "Transfer-Encoding : chunked\r\n") + body), b"http.malformed"),
            (gateway.raw(head(path, "Content-Length: 16777217\r\n")), b"body.size"),
            (gateway.raw(head(path, length) + body + head(path, length) + body), b"http.pipelined"),
            (gateway.raw(head(path, length + "Content-Encoding: gzip\r\n") + body), b"http.content_encoding"),
            (gateway.raw(head(path, length + "x-api-key: two\r\n") + body), b"token"),
            (gateway.raw(head(path, length + f"X: {'x' * 20_000}\r\n") + body), b"http.head_size"),
            (gateway.raw(head(path + "?model=other", length) + body), b"query.model"),
            (gateway.raw(head(path + "/../files", length) + body), b"path"),
            (gateway.raw(head("http://g" + path, length) + body), b"path"),
            (gateway.raw(head("/" + path, length) + body), b"path"),
        ]
        for other in ({"model": "other"}, {"Model": ALIAS}, {"fallbacks": ["other"]}):
            changed = json.dumps(json.loads(body) | other).encode()
            refused.append((gateway.raw(head(path, f"Content-Length: {len(changed)}\r\n") + changed), b"body."))
        for answer, code in refused:
            assert answer.count(b"HTTP/1.1") == 1 and answer.split()[1] in (b"404", b"401"), answer
            assert code in answer, (code, answer)
        assert not endpoint.heard
        chunked = chunk(body[:5]) + chunk(body[5:]) + b"0\r\n\r\n"
        assert gateway.raw(head(path, "Transfer-Encoding: chunked\r\n") + chunked).startswith(b"HTTP/1.1 200 ")
        assert endpoint.heard[0].count(b"ontent-") == 2 and b"chunked" not in endpoint.heard[0]
        assert gateway.stop().intact


def test_ten_thousand_requests_push_out_no_proof() -> None:
    with passing(lambda _: http_answer(completion())) as (gateway, _):
        assert gateway.ask(asking(CHAT))[0] == 200
        for number in range(10_000):
            gateway.raw(
                b"POST /v1/files HTTP/1.1\r\nHost: g\r\n\r\n" if number % 2 else head(CHAT, "Content-Length: x\r\n")
            )
        assert gateway.ask(asking(CHAT))[0] == 200
        report = gateway.stop()
        assert report.intact and report.lines < 40
        assert report.unattributed == {"path": 5_000, "http.malformed": 5_000}
        assert len(report.trial(1).completions) == 2


def test_environment_runs_have_none_of_it() -> None:
    with (
        raw_endpoint(lambda _: http_answer(completion())) as endpoint,
        running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as gateway,
    ):
        for path in (RESPONSES, EMBEDDINGS, MESSAGES, COUNT, f"{CHAT}?beta=true"):
            assert error_code(gateway.ask(asking(path.partition("?")[0]), path=path)) == (404, "path")
        assert gateway.ask(headers={"Authorization": "", "x-api-key": trial_token(RUN_KEY, 1)})[0] == 401
        assert not endpoint.heard
