"""The connection of an exec: frames in any pieces, bounded output, a limit, an interruption that works."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.attendant import execs
from runs.attendant.attach import STDERR, STDOUT, Attachment, engine_socket
from runs.attendant.execs import Command, Interrupt, Tail, run_to_end
from runs.wire.failures import EngineFailed

HEAD = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


class Engine:
    """Answers the two calls around an attached exec."""

    api_version = "1.41"

    def __init__(self, running: list[bool] | None = None, code: int | None = 0) -> None:
        self._running = running or [False]
        self._code = code
        self.created: list[dict[str, Any]] = []

    def exec_create(self, container: str, cmd: list[str], **options: Any) -> dict[str, Any]:
        self.created.append({"container": container, "cmd": cmd, **options})
        return {"Id": "e" * 64}

    def exec_inspect(self, exec_id: str) -> dict[str, Any]:
        running = self._running.pop(0) if len(self._running) > 1 else self._running[0]
        return {"Running": running, "ExitCode": None if running else self._code}


@contextmanager
def served(
    monkeypatch: pytest.MonkeyPatch, directory: Path, serve: Callable[[socket.socket, bytes], None]
) -> Iterator[None]:
    """An engine's socket whose one connection is handled by `serve(connection, request head)`."""
    path = directory / "engine.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            serve(connection, head)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(10)
    listener.close()


def run(engine: Engine, **options: Any) -> tuple[execs.Ended, bytes, str]:
    output = bytearray()
    ended, errors = run_to_end(engine, "c", Command(("true",)), take=output.extend, **{"limit_s": 10.0, **options})
    return ended, bytes(output), errors.text()


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_frames_are_read_whole_however_the_bytes_arrive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: int
) -> None:
    data = HEAD + frame(STDOUT, b"one ") + frame(STDERR, b"wrong") + frame(STDOUT, b"") + frame(STDOUT, b"two")

    def serve(connection: socket.socket, head: bytes) -> None:
        for start in range(0, len(data), step):
            connection.sendall(data[start : start + step])

    with served(monkeypatch, tmp_path, serve):
        ended, output, errors = run(Engine(code=3))
    assert (ended.exit_code, output, errors, ended.timed_out) == (3, b"one two", "wrong", False)


def test_standard_input_is_sent_whole_then_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    received = bytearray()

    def serve(connection: socket.socket, head: bytes) -> None:
        connection.sendall(HEAD)
        received.extend(head.partition(b"\r\n\r\n")[2])
        while data := connection.recv(65536):
            received.extend(data)
        connection.sendall(frame(STDOUT, b"done"))

    sent = [bytes([n]) * 100_000 for n in range(20)]
    with served(monkeypatch, tmp_path, serve):
        _, output, _ = run(Engine(), stdin=iter(sent))
    body = json.dumps({"Detach": False, "Tty": False}).encode()
    assert bytes(received).removeprefix(body) == b"".join(sent)
    assert output == b"done"


def test_a_command_without_input_sends_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = Engine()
    with served(monkeypatch, tmp_path, lambda connection, head: connection.sendall(HEAD)):
        run(engine)
    assert engine.created[0]["stdin"] is False
    assert engine.created[0]["cmd"] == ["true"]


def test_a_command_past_its_limit_is_timed_out_without_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    over = threading.Event()

    def serve(connection: socket.socket, head: bytes) -> None:
        connection.sendall(HEAD + frame(STDOUT, b"begun"))
        over.wait(10)

    with served(monkeypatch, tmp_path, serve):
        ended, output, _ = run(Engine(running=[True]), limit_s=0.2)
        over.set()
    assert (ended.timed_out, ended.exit_code, output) == (True, None, b"begun")


def test_an_interrupt_from_another_thread_ends_the_reading_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    over, interrupt = threading.Event(), Interrupt()

    def serve(connection: socket.socket, head: bytes) -> None:
        connection.sendall(HEAD)
        interrupt()
        over.wait(10)

    with served(monkeypatch, tmp_path, serve):
        ended, _, _ = run(Engine(running=[True]), limit_s=60.0, interrupt=interrupt)
        over.set()
    assert (ended.aborted, ended.timed_out, ended.exit_code) == (True, False, None)


def test_an_interrupt_that_came_too_early_still_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    interrupt = Interrupt()
    interrupt()
    with served(monkeypatch, tmp_path, lambda connection, head: connection.sendall(HEAD)):
        ended, _, _ = run(Engine(running=[True]), limit_s=60.0, interrupt=interrupt)
    assert ended.aborted


def test_an_orphan_that_holds_the_stream_open_does_not_hold_the_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(execs, "TICK_S", 0.02)
    over = threading.Event()

    def serve(connection: socket.socket, head: bytes) -> None:
        connection.sendall(HEAD + frame(STDOUT, b"said"))
        over.wait(10)

    with served(monkeypatch, tmp_path, serve):
        ended, output, _ = run(Engine(running=[True, True, False], code=5), limit_s=60.0)
        over.set()
    assert (ended.exit_code, ended.orphaned, ended.timed_out, output) == (5, True, False, b"said")


def test_the_exit_code_is_waited_for_while_the_engine_still_says_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with served(monkeypatch, tmp_path, lambda connection, head: connection.sendall(HEAD)):
        ended, _, _ = run(Engine(running=[True, True, False], code=9))
    assert ended.exit_code == 9


def test_a_refused_start_is_an_engine_failure_with_its_reason_in_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = b"HTTP/1.1 409 Conflict\r\nContent-Length: 9\r\n\r\nis paused"
    with (
        served(monkeypatch, tmp_path, lambda connection, head: connection.sendall(answer)),
        pytest.raises(EngineFailed) as caught,
    ):
        run(Engine())
    assert "409" in caught.value.detail
    assert "paused" not in str(caught.value)


def test_an_engine_that_is_not_behind_a_unix_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")
    with pytest.raises(EngineFailed):
        engine_socket()


def test_a_closed_connection_is_only_the_end(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.setblocking(False)
    attachment = Attachment(ours, frame(STDOUT, b"last"))
    found = list(attachment.frames(None, time.monotonic() + 10, 1.0))
    attachment.close()
    assert found == [(STDOUT, b"last")]


@given(st.lists(st.binary(max_size=40), max_size=40), st.integers(2, 50))
def test_of_long_output_the_first_and_the_last_half_are_kept_and_all_is_counted(
    pieces: list[bytes], limit: int
) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    whole, half = b"".join(pieces), limit // 2
    assert tail.total == len(whole)
    assert tail.truncated == (len(whole) > 2 * half)
    if not tail.truncated:
        assert tail.text() == whole.decode("utf-8", "replace")
    else:
        ends = whole[:half] + b"\n[output cut here]\n" + whole[-half:]
        assert tail.text() == ends.decode("utf-8", "replace")
