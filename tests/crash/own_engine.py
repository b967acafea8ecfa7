"""A container engine of the test's own, which may be killed: a second dockerd in a network namespace of its own.

Its data, its sockets, its bridges and its packet filter are its own, so the engine of this machine never notices.
What is to talk to its containers (a worker, an endpoint) is started inside `network()`.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import psutil

from runs.containers import connect

START_BOUND_S = 180.0
STOP_BOUND_S = 120.0
CALL_TIMEOUT_S = 60
POLL_S = 0.05
BRIDGE_ADDRESS = "172.17.0.1"
MEMORY_NEEDED = 8 * 1024**3
MEMORY_OPTIONS = "size=4g,mode=0700"


@dataclass
class OwnEngine:
    """One engine: `start`, `stop`, `kill` and `start` again; `remove` at the very end."""

    folder: Path
    _holder: "subprocess.Popen[bytes]"
    _daemon: "subprocess.Popen[bytes] | None" = field(default=None)

    @classmethod
    def make(cls) -> "OwnEngine":
        """A folder (short, for its sockets) and a network namespace with its loopback up; nothing runs yet."""
        holder = subprocess.Popen([*_ends_with_us("KILL"), "unshare", "--net", "--", "sleep", "infinity"])
        engine = cls(Path(tempfile.mkdtemp(prefix="bs-engine-")), holder)
        if psutil.virtual_memory().available >= MEMORY_NEEDED:
            # In memory the images are there, and gone, in a fraction of the time.
            subprocess.run(["mount", "-t", "tmpfs", "-o", MEMORY_OPTIONS, "engine", str(engine.folder)], check=True)
        (engine.folder / "daemon.json").write_text("{}\n")
        _wait(lambda: _namespace(holder.pid) != _namespace(os.getpid()), START_BOUND_S, "no network namespace")
        with engine.network():
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return engine

    @property
    def socket(self) -> Path:
        return self.folder / "engine.sock"

    @property
    def url(self) -> str:
        """The value of DOCKER_HOST."""
        return f"unix://{self.socket}"

    @property
    def alive(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    def api(self) -> docker.APIClient:
        """A new client; the caller closes it."""
        return docker.APIClient(base_url=self.url, version="auto", timeout=CALL_TIMEOUT_S)

    @contextmanager
    def network(self) -> Iterator[None]:
        """What this thread starts meanwhile, processes and threads and sockets, lives in the engine's network."""
        with Path("/proc/thread-self/ns/net").open() as ours, Path(f"/proc/{self._holder.pid}/ns/net").open() as its:
            os.setns(its.fileno(), os.CLONE_NEWNET)
            try:
                yield
            finally:
                os.setns(ours.fileno(), os.CLONE_NEWNET)

    def start(self) -> None:
        """Start the engine and wait until it answers; also after it was killed."""
        for stale in (self._pid_file, self._containerd_pid_file):
            # A pid that belongs to somebody else by now would keep the new daemon from starting.
            if not _runs(stale):
                stale.unlink(missing_ok=True)
        command = [
            *_ends_with_us("TERM"),
            "dockerd",
            f"--host={self.url}",
            f"--config-file={self.folder}/daemon.json",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self._pid_file}",
            "--log-level=warn",
        ]
        with self.network(), self.log.open("ab") as log:
            self._daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _wait(self._answers, START_BOUND_S, f"the engine did not start; its log is {self.log}")

    def stop(self) -> None:
        """TERM: its containers are stopped."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            self._daemon.wait(STOP_BOUND_S)

    def kill(self) -> None:
        """KILL, as when the machine's memory is full: its containers go on, and nobody knows of them."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait(STOP_BOUND_S)
        _wait(lambda: not _runs(self._containerd_pid_file), STOP_BOUND_S, "containerd outlived its engine")

    def load(self, source: docker.APIClient, image_ids: Iterable[str]) -> None:
        """Copy images from another engine; their ids stay the same."""
        with _closing(self.api()) as own:
            for image_id in image_ids:
                own.load_image(source.get_image(image_id))
                own.inspect_image(image_id)

    def remove(self) -> None:
        """Remove the engine with everything in it: containers, processes, mounts, files, the namespace."""
        try:
            if not self.alive:
                self.start()
            with _closing(self.api()) as api:
                for container in api.containers(all=True):
                    api.remove_container(container["Id"], force=True, v=True)
            self.stop()
        finally:
            if self.alive and self._daemon is not None:
                self._daemon.kill()
                self._daemon.wait(STOP_BOUND_S)
            for place in _mounts_below(self.folder):
                subprocess.run(["umount", "--lazy", place], check=False)
            self._holder.kill()
            self._holder.wait(STOP_BOUND_S)
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def log(self) -> Path:
        return self.folder / "engine.log"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "engine.pid"

    @property
    def _containerd_pid_file(self) -> Path:
        return self.folder / "exec" / "containerd" / "containerd.pid"

    def _answers(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"the engine ended: {self.log.read_text()[-2000:]}")
        if not listens(self.socket):
            return False
        with suppress(docker.errors.DockerException, OSError), _closing(self.api()) as api:
            return bool(api.ping())
        return False


def listens(path: Path) -> bool:
    """Whether somebody accepts connections; the engine's client would leave a socket open to find that out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        try:
            one.connect(str(path))
        except OSError:
            return False
    return True


@contextmanager
def own_engine(image_ids: Iterable[str]) -> Iterator[OwnEngine]:
    """A running engine that holds these images of this machine's engine; everything of it is removed at the end."""
    engine = OwnEngine.make()
    try:
        engine.start()
        with _closing(connect(CALL_TIMEOUT_S)) as shared:
            engine.load(shared, image_ids)
        yield engine
    finally:
        engine.remove()


@contextmanager
def _closing(api: docker.APIClient) -> Iterator[Any]:
    try:
        yield api
    finally:
        api.close()


def _ends_with_us(number: str) -> list[str]:
    """A prefix that lets a program end with the thread that starts it, however that ends."""
    return ["setpriv", f"--pdeathsig={number}", "--"]


def _namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _runs(pid_file: Path) -> bool:
    try:
        state = Path(f"/proc/{int(pid_file.read_text())}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return False
    return state not in "ZX"


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4] for line in lines]
    return sorted((place for place in places if Path(place).is_relative_to(folder)), reverse=True)


def _wait(holds: Any, bound_s: float, sentence: str) -> None:
    end = time.monotonic() + bound_s
    while not holds():
        if time.monotonic() >= end:
            raise RuntimeError(sentence)
        time.sleep(POLL_S)
