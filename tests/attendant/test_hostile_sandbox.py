"""A real sandbox that does its worst with the socket pair: its attendant ends, says why, and leaves nothing."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.attendant.main import LOG_BYTES, Exit
from runs.engine.trials.harbor_config import CONDUCT
from tests.attendant.running_attendant import Running, harness_of
from tests.engine.site import wait_until

pytestmark = pytest.mark.harbor_compatibility

# Says that it is ready, hears the whole go (a peer that stops hearing before that is lost, and no violation), and then
# does what the config names.
HARBOR = """
import json, os, signal, socket, sys, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
peer = socket.socket(fileno=int(sys.argv[2]))
def frame(kind, data):
    return kind + len(data).to_bytes(4, "big") + data
def say(**message):
    peer.sendall(frame(b"M", json.dumps(message).encode()))
say(do="ready")
received = b""
while b"act-" not in received or not received.endswith(b"E" + bytes(4)):
    received += peer.recv(65536)
act = received[received.index(b"act-") + 4:].split(b"\\"")[0].decode()
def begun():
    print("begun", flush=True)
def forever():
    while True:
        time.sleep(60)
if act == "close":
    peer.close()
elif act == "half-close":
    peer.shutdown(socket.SHUT_WR)
elif act == "deaf":
    peer.shutdown(socket.SHUT_RD)
    say(do="flush", session="t__env")
elif act == "slow":
    begun()
    for byte in frame(b"M", b" " * 100_000):
        peer.sendall(bytes([byte]))
        time.sleep(0.05)
elif act == "stopped":
    begun()
    while True:
        signal.pthread_kill(__import__("threading").get_ident(), signal.SIGSTOP)
elif act == "silent":
    begun()
elif act == "huge":
    peer.sendall(b"M" + b"\\xff" * 4)
elif act == "cancels":
    peer.sendall(frame(b"M", json.dumps({"do": "cancel"}).encode()) * 1000)
elif act == "descriptors":
    for _ in range(50):
        socket.send_fds(peer, [b""[:0] or frame(b"C", b"x")], [1, 2, 1, 2])
elif act == "endless":
    say(do="left", exit_code=0)
    chunk = frame(b"C", bytes(256 * 1024))
    while True:
        peer.sendall(chunk)
elif act == "log":
    for _ in range(400):
        os.write(1, b"x" * 65536)
    peer.sendall(b"X" * 5)
forever()
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return harness_of(tmp_path_factory.mktemp("harness") / "made", HARBOR)


@pytest.fixture
def running(tmp_path: Path, harness: Path) -> Iterator[Running]:
    made = Running(tmp_path / "run", harness)
    yield made
    made.kill()
    for pid in made.left():
        os.kill(pid, signal.SIGKILL)


def go(running: Running, act: str) -> None:
    """Let the trial begin whose config names the act."""
    directory = running.journal.directory
    role = {"image_id": "sha256:" + "0" * 64, "cpus": 1, "memory_bytes": 1, "pids": 1, "nofile": 1, "tmpfs": {}}
    plan: dict[str, Any] = {
        "schema": "benchsite.environment-plan/v2", "run_id": "r", "trial": 1, "task": "t",
        "journal_directory": str(directory), "placeholder": "p", "conduct": CONDUCT,
        "roles": dict.fromkeys(CONDUCT, role), "deadlines": {"setup": 9, "agent": 9, "verifier": 9},
        "bounds": {"exec_output_bytes": 9, "transfer_bytes": 9, "transfer_files": 9},
    }  # fmt: skip
    (directory / "trials/1/environment.json").write_text(json.dumps(plan))
    (directory / "trials/1/config.json").write_text(json.dumps({"name": f"act-{act}"}))
    (directory / "tasks/t").mkdir(parents=True)
    assert running.process.stdin is not None
    running.process.stdin.write(b'{"token": "t"}\n')
    running.process.stdin.flush()


def ended(running: Running) -> int:
    try:
        return running.process.wait(120)
    except subprocess.TimeoutExpired:
        return pytest.fail(running.log.read_text())


@pytest.mark.parametrize(
    ("act", "exit_code"),
    [
        ("close", Exit.SANDBOX_LOST),
        ("half-close", Exit.SANDBOX_LOST),
        ("deaf", Exit.VIOLATION),
        ("huge", Exit.VIOLATION),
        ("cancels", Exit.VIOLATION),
        ("descriptors", Exit.VIOLATION),
        ("endless", Exit.VIOLATION),
        ("log", Exit.VIOLATION),
    ],
)
def test_a_sandbox_that_breaks_the_conversation_is_ended_with_its_attendant(
    running: Running, act: str, exit_code: Exit
) -> None:
    go(running, act)
    assert ended(running) == exit_code, running.log.read_text()[-500:]
    assert running.left() == []
    assert running.log.stat().st_size <= LOG_BYTES + 4096
    folder = running.journal.directory / "trials/1"
    assert not (folder / "job").exists()
    recorded = [json.loads(line)["event"] for line in (folder / "observed.jsonl").read_text().splitlines()]
    assert ("failure" in recorded) is (exit_code is Exit.VIOLATION)


@pytest.mark.parametrize("act", ["slow", "stopped", "silent"])
def test_a_sandbox_that_only_wastes_time_is_ended_when_its_attendant_is_told(running: Running, act: str) -> None:
    go(running, act)
    wait_until(lambda: b"begun" in running.log.read_bytes())
    os.kill(running.process.pid, signal.SIGTERM)
    assert ended(running) == Exit.SANDBOX_LOST
    assert running.left() == []
