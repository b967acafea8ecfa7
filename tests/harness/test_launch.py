"""Inside the sandbox: a fixed environment, a go that came whole, Harbor's own exit, and the job handed over."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.harness import launch
from runs.wire import frames, tar_writer
from runs.wire.copies import KeptCopy
from runs.wire.frames import Closed, Violation
from runs.wire.tar_reader import unpack


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def send(connection: socket.socket, parts: Iterator[bytes]) -> threading.Thread:
    def work() -> None:
        for part in parts:
            connection.sendall(part)

    sender = threading.Thread(target=work)
    sender.start()
    return sender


def go(root: Path, files: dict[str, bytes], source: Path) -> Iterator[bytes]:
    for name, data in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    yield frames.message({"say": "go", "root": str(root), "config": str(root / "trials/1/config.json")})
    yield from frames.stream(tar_writer.stream([tar_writer.of_directory("go", source, "/run", launch.LIMITS)]))


def test_nothing_of_the_environment_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTPS_PROXY", "PYTHONPATH", "DOCKER_HOST", "BENCHSITE_OWNER"):
        monkeypatch.setenv(name, "inherited")
    kept, mask = dict(os.environ), os.umask(0o022)
    try:
        launch.prepare(tmp_path)
        assert "inherited" not in os.environ.values()
        assert (os.environ["HOME"], os.environ["TMPDIR"]) == (f"{tmp_path}/home", f"{tmp_path}/tmp")
        assert (os.environ["HARBOR_TELEMETRY"], os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]) == ("off", "True")
    finally:
        os.umask(mask)
        os.environ.clear()
        os.environ.update(kept)


def test_the_files_of_the_run_are_laid_out_where_the_config_says(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    root = tmp_path / "run"
    sender = send(ends[0], go(root, {"trials/1/config.json": b"{}", "tasks/t/task.toml": b"x"}, tmp_path / "source"))
    assert launch.receive_go(ends[1]) == root / "trials/1/config.json"
    sender.join()
    assert (root / "tasks/t/task.toml").read_bytes() == b"x"


@pytest.mark.parametrize(
    "said", [b"", frames.message({"say": "terminate"}), frames.message({"say": "go"}) + frames.encode(frames.END)]
)
def test_without_a_go_that_came_whole_nothing_starts(ends: tuple[socket.socket, socket.socket], said: bytes) -> None:
    ends[0].sendall(said)
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises((Closed, Violation, ValueError, KeyError)):
        launch.receive_go(ends[1])


def test_the_job_is_handed_over_with_harbors_exit_code(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    job = tmp_path / "job"
    (job / "trial").mkdir(parents=True)
    (job / "result.json").write_text("{}")
    (job / "trial" / "result.json").write_text("[]")
    sender = threading.Thread(target=launch.send_job, args=(ends[1], job, 3))
    sender.start()
    assert json.loads(frames.receive(ends[0]).payload) == {"do": "left", "exit_code": 3}
    copy = KeptCopy(tmp_path / "copy")
    assert unpack(frames.receive_stream(ends[0], max_bytes=10**6), "job", copy, launch.LIMITS).complete
    sender.join()
    assert sorted(entry.path for entry in copy.entries) == ["result.json", "trial/result.json"]


def test_a_job_that_was_never_written_is_an_empty_one(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    launch.send_job(ends[1], tmp_path / "job", 1)
    assert json.loads(frames.receive(ends[0]).payload)["exit_code"] == 1
    unpacked = unpack(frames.receive_stream(ends[0], max_bytes=10**6), "job", KeptCopy(tmp_path / "c"), launch.LIMITS)
    assert unpacked.complete and unpacked.files == 0


@pytest.mark.parametrize(("code", "expected"), [(None, 0), (0, 0), (3, 3), ("a message", 1), (-1, 255)])
def test_harbors_exit_is_the_exit_of_the_process(code: object, expected: int) -> None:
    assert launch.exit_code_of(SystemExit(code)) == expected
