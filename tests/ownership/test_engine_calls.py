"""What the real client makes of an engine's answers, over a real socket with a scripted engine behind it."""

import gc
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from runs.containers import Engine, EngineError, connect, engine_call

ID = "a" * 64


class ScriptedEngine(socketserver.ThreadingUnixStreamServer):
    """Answers /version rightly and everything else with `status`, or never when that is None."""

    daemon_threads = True
    status: int | None = 404

    def __init__(self, path: str) -> None:
        super().__init__(path, Handler)
        self.done = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: ScriptedEngine

    def do_GET(self) -> None:
        if self.path.endswith("/version"):
            return self._answer(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"})
        if self.server.status is None:
            self.server.done.wait(60)
            return None
        return self._answer(self.server.status, {"message": "so it is"})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "engine"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEngine]:
    path = tmp_path / "engine.sock"
    with ScriptedEngine(str(path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield server
        server.done.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def client(scripted: ScriptedEngine) -> Iterator[Any]:
    made = connect(timeout_s=60)
    yield made
    made.close()


def inspect(client: Engine) -> None:
    with engine_call("inspect container"):
        client.inspect_container(ID)


@pytest.mark.parametrize(
    ("status", "code", "nothing_was_done"),
    [
        (400, "engine_refused", True),
        (404, "engine_absent", True),
        (403, "engine_refused", False),
        (409, "engine_conflict", False),
        (500, "engine_failed", False),
        (503, "engine_failed", False),
    ],
)
def test_each_status_has_its_code(
    scripted: ScriptedEngine, client: Engine, status: int, code: str, nothing_was_done: bool
) -> None:
    scripted.status = status
    with pytest.raises(EngineError) as raised:
        inspect(client)
    error = raised.value
    assert (error.code, error.status, error.nothing_was_done) == (code, status, nothing_was_done)
    assert "so it is" in error.detail and "so it is" not in error.sentence


def test_an_engine_that_never_answers_is_a_timeout(scripted: ScriptedEngine, client: Any) -> None:
    scripted.status = None
    client.timeout = 1
    with pytest.raises(EngineError) as raised:
        inspect(client)
    assert (raised.value.code, raised.value.status) == ("engine_timeout", None)
    assert not raised.value.nothing_was_done


# The client leaves its unconnected socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_is_not_there_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(EngineError) as raised:
        connect(timeout_s=1)
    assert raised.value.code == "engine_unreachable"
    del raised
    gc.collect()
