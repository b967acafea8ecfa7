"""A cleanup ends within its bound whatever the engine does at any of its calls, and what is not proved is unknown.

Real sockets with a scripted engine behind them. Time is a clock that moves one step each time it is looked at.
"""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from runs.containers import Deadline, EngineError, connect, create_owned, engine_call
from runs.containers.deadline import CALL_S, CLEANUP_S
from runs.engine.ending.cleanup import CleanupResult, clean_up
from runs.engine.ending.interrupted_logs import keep_interrupted_logs
from runs.engine.host.folder import RunFolder
from runs.engine.host.same_engine import connect_same, remember_engine
from runs.ownership import Journal, Outcome

from .conftest import agent_request
from .fake_engine import FakeEngine
from .test_processes import until

HOW = ("silent", "half a head", "trickling head", "trickling body")
CALLS = ("version", "info", "list", "inspect", "remove", "gone", "look")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n"
GIVES_UP_S = 60  # so that a cleanup which waits for ever fails instead of hanging


class Engine(socketserver.ThreadingUnixStreamServer):
    """Has one container of `intent`, whose removal works; at the call `bad` it behaves as `how` says."""

    daemon_threads = True

    def __init__(self, path: str, intent: Any, container: str) -> None:
        super().__init__(path, Handler)
        self.intent, self.container = intent, container
        self.bad, self.how = "", ""
        self.present = True
        self.closing = threading.Event()
        self.asked: list[str] = []
        self.gave_up = False  # before the client did

    def handle_error(self, *_: Any) -> None:
        """A client that gave up is what these tests are about."""


class Handler(socketserver.StreamRequestHandler):
    server: Engine

    def handle(self) -> None:
        while line := self.rfile.readline():
            method, path, _ = line.decode().split(" ", 2)
            while self.rfile.readline().strip():
                pass
            call = self._call(method, path)
            self.server.asked.append(call)
            if call == self.server.bad:
                self._misbehave()
                return
            self._answer(*self._of_call(call))

    def _call(self, method: str, path: str) -> str:
        if path.endswith(("/version", "/info")):
            return path.rpartition("/")[2]
        if method == "DELETE":
            return "remove"
        if "/containers/json" in path:
            return "list" if self.server.present else "look"
        return "inspect" if self.server.present else "gone"

    def _of_call(self, call: str) -> tuple[int, Any]:
        labels = self.server.intent.labels
        here = {"Id": self.server.container, "Labels": labels, "Config": {"Labels": labels}}
        match call:
            case "version":
                return 200, {"ApiVersion": "1.41"}
            case "info":
                return 200, {"ID": "the engine", "DockerRootDir": "/var/lib/docker"}
            case "list":
                return 200, [here]
            case "inspect":
                return 200, here
            case "look":
                return 200, []
            case "remove":
                self.server.present = False
                return 204, None
        return 404, {"message": "no such container"}

    def _answer(self, status: int, document: Any) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def _misbehave(self) -> None:
        match self.server.how:
            case "half a head":
                self.wfile.write(HEAD[:30])
            case "trickling head":
                return self._trickle(HEAD + b"X-More: ")
            case "trickling body":
                return self._trickle(HEAD + b"\r\n[")
        self.server.gave_up = not self.server.closing.wait(GIVES_UP_S)
        return None

    def _trickle(self, start: bytes) -> None:
        self.wfile.write(start)
        for _ in range(GIVES_UP_S * 200):
            self.wfile.write(b" ")
            if self.server.closing.wait(0.005):
                return
        self.server.gave_up = True


@pytest.fixture
def owned(journal: Journal, engine: FakeEngine) -> Any:
    remember_engine(journal.directory, engine)
    return create_owned(engine, journal, {"trial": 1}, agent_request())


@pytest.fixture
def server(tmp_path: Path, owned: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    path = tmp_path / "engine.sock"
    with Engine(str(path), owned.intent, owned.id) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


def stepping(step: float) -> Callable[[], float]:
    ticks = count()
    return lambda: next(ticks) * step


def cleaned(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> CleanupResult:
    """A cleanup that has two seconds in all and one for each call; the sockets' own timeout would be 60 s."""
    monkeypatch.setattr("runs.engine.ending.cleanup.Deadline", partial(Deadline, 2.0, 1.0))
    clients: list[Any] = []

    def connected(deadline: Deadline) -> Any:
        clients.append(connect_same(journal.directory, 60, deadline))
        return clients[-1]

    result = clean_up(connected, journal, reason="cancelled")
    for client in clients:
        client.close()
    return result


def test_the_bounds_are_those_of_the_contract() -> None:
    assert (CALL_S, CLEANUP_S) == (5.0, 60.0)


def test_an_engine_that_answers_is_cleaned_up(
    server: Engine, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cleaned(journal, monkeypatch).state == "clean"
    assert set(CALLS) - {"list"} == set(server.asked)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("call", CALLS)
def test_an_engine_that_hangs_at_a_call_is_unknown_and_never_success(
    server: Engine, journal: Journal, monkeypatch: pytest.MonkeyPatch, call: str, how: str, owned: Any
) -> None:
    server.bad, server.how = call, how
    if call == "list":  # the id was never persisted, so the container is looked for by its labels
        text = journal.path.read_text().replace(f'"{owned.id}"', "null").replace('"created"', '"unknown"')
        journal.path.write_text(text)
    result = cleaned(journal, monkeypatch)
    assert result.state == "failed" and not server.gave_up
    until(lambda: call in server.asked)
    assert server.asked.count(call) <= 2  # a second each, in two
    if call in ("version", "info", "look"):
        assert result.problems == ("engine_timeout",)
    else:
        assert [resource.outcome for resource in result.report.resources] == [Outcome.UNKNOWN]
        assert not journal.read().resources[0].settled


@pytest.mark.parametrize("how", ["trickling head", "trickling body"])
def test_bytes_that_trickle_buy_no_time(server: Engine, how: str) -> None:
    """The clock moves a second each time it is looked at, so the call is over after a few reads, however fast."""
    client = connect(60)
    server.bad, server.how = "inspect", how
    deadline = Deadline(monotonic=stepping(1.0))
    with pytest.raises(EngineError) as raised, engine_call("inspect container", deadline):
        client.inspect_container(server.container)
    assert raised.value.code == "engine_timeout" and not server.gave_up
    client.close()


def test_when_no_time_is_left_nothing_is_asked(server: Engine) -> None:
    client = connect(60)
    before = list(server.asked)
    deadline = Deadline(3.0, monotonic=stepping(2.0))
    with pytest.raises(EngineError) as raised, engine_call("inspect container", deadline):
        client.inspect_container(server.container)
    assert (raised.value.code, server.asked) == ("engine_timeout", before)
    client.close()


def test_a_call_without_a_deadline_keeps_its_sockets_own_time_afterwards(server: Engine) -> None:
    client = connect(60)
    with engine_call("info", Deadline(call_s=0.5)):
        client.info()
    server.bad, server.how = "inspect", "silent"
    threading.Timer(1.0, server.closing.set).start()  # then the answer is cut off, which is no timeout
    with pytest.raises(EngineError) as raised, engine_call("inspect container"):
        client.inspect_container(server.container)
    assert raised.value.code == "engine_unreachable"
    client.close()


@pytest.mark.parametrize("how", HOW)
def test_logs_that_an_engine_does_not_give_up_are_passed_over(
    server: Engine, journal: Journal, tmp_path: Path, how: str, owned: Any
) -> None:
    journal.mark(owned.intent.nonce, "started")
    client = connect(60)
    server.bad, server.how = "inspect", how
    folder = RunFolder(tmp_path / "folder")
    assert keep_interrupted_logs(client, journal, folder, Deadline(1.0, 0.2)) == [] and not server.gave_up
    client.close()
