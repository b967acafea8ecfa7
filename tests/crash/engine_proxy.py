"""Stop a caller of the engine exactly between two steps: a proxy on a socket that holds one chosen call.

A call may be held before the engine hears of it, or after the engine has answered and before its caller knows.
When the caller dies meanwhile, its call reaches the engine all the same, as with a real socket.
"""

import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import docker

from tests.crash.own_engine import listens

CHUNK = 64 * 1024
_CONTAINER = re.compile(r"/containers/([0-9a-f]{64})(?:/|\?|$)")
_EXEC_START = re.compile(r"/exec/([0-9a-f]{64})/start$")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the engine: `role` is that of the container or network that it is about, if it is ours."""

    method: str
    path: str
    body: dict[str, Any]
    role: str | None = None
    command: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The last word of the path, without version and query: `create`, `start`, …"""
        return self.path.partition("?")[0].rpartition("/")[2]


@dataclass
class Hold:
    """Stops the first call that `matches`; `reached` is set there, and it goes on once `released` is set."""

    matches: Callable[[Call], bool]
    when: Literal["before", "after"]
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    taken: bool = False

    def stop_here(self) -> None:
        self.reached.set()
        self.released.wait()


class EngineProxy:
    """Listens on `path` and speaks to the engine's own socket; at most one hold is armed at a time."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.path, self.engine = path, engine
        self._hold: Hold | None = None
        self._roles: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def arm(self, hold: Hold) -> None:
        with self._lock:
            self._hold = hold

    def disarm(self) -> None:
        """Let everything go on, and hold nothing from here on."""
        with self._lock:
            hold, self._hold = self._hold, None
        if hold is not None:
            hold.released.set()

    def close(self) -> None:
        self.disarm()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            upstream.connect(str(self.engine))
        except OSError:
            client.close()
            upstream.close()
            return
        gate = threading.Event()
        gate.set()
        held: list[Hold] = []
        back = threading.Thread(target=_answer, args=(upstream, client, gate, held), daemon=True)
        back.start()
        with suppress(OSError):
            self._ask(client, upstream, gate, held)
        # The asker half-closed, or died: what the engine still has to say is said as far as somebody listens.
        with suppress(OSError):
            upstream.shutdown(socket.SHUT_WR)
        back.join()
        client.close()
        upstream.close()

    def _ask(self, client: socket.socket, upstream: socket.socket, gate: threading.Event, held: list[Hold]) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = client.recv(CHUNK)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            length = _length(head)
            while len(data) < length:
                more = client.recv(CHUNK)
                if not more:
                    return
                data += more
            body, data = data[:length], data[length:]
            hold = self._holding(head, body)
            if hold is not None and hold.when == "before":
                hold.stop_here()
            elif hold is not None:
                held.append(hold)
                gate.clear()
            upstream.sendall(head + b"\r\n\r\n" + body)
            if b"\r\nupgrade:" in head.lower():
                upstream.sendall(data)
                _pump(client, upstream)
                return

    def _holding(self, head: bytes, body: bytes) -> Hold | None:
        hold = self._hold
        if hold is None or hold.taken or not hold.matches(self._call(head, body)):
            return None
        with self._lock:
            if hold.taken or self._hold is not hold:
                return None
            hold.taken = True
        return hold

    def _call(self, head: bytes, body: bytes) -> Call:
        method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        document = _object(body)
        if path.partition("?")[0].endswith("/create"):
            labels = document.get("Labels") or {}
            return Call(method, path, document, labels.get("benchsite.role"))
        if (of_container := _CONTAINER.search(path)) is not None:
            return Call(method, path, document, self._role(of_container[1]), tuple(document.get("Cmd") or ()))
        if (of_exec := _EXEC_START.search(path)) is not None:
            container, command = self._exec(of_exec[1])
            return Call(method, path, document, self._role(container), command)
        return Call(method, path, document)

    def _role(self, container: str) -> str | None:
        if container not in self._roles:
            labels = self._look(lambda api: api.inspect_container(container)["Config"]["Labels"]) or {}
            self._roles[container] = labels.get("benchsite.role")
        return self._roles[container]

    def _exec(self, exec_id: str) -> tuple[str, tuple[str, ...]]:
        seen = self._look(lambda api: api.exec_inspect(exec_id)) or {}
        process = seen.get("ProcessConfig") or {}
        return str(seen.get("ContainerID")), (str(process.get("entrypoint")), *(process.get("arguments") or ()))

    def _look(self, ask: Callable[[docker.APIClient], Any]) -> Any:
        if not listens(self.engine):
            return None
        try:
            api = docker.APIClient(base_url=f"unix://{self.engine}", version="auto", timeout=10)
        except docker.errors.DockerException:
            return None
        try:
            return ask(api)
        except docker.errors.APIError:
            return None
        finally:
            api.close()


def _answer(upstream: socket.socket, client: socket.socket, gate: threading.Event, held: list[Hold]) -> None:
    """Carry answers back; at a closed gate the engine's answer is here, and its caller waits."""
    with suppress(OSError):
        while data := upstream.recv(CHUNK):
            if not gate.is_set():
                held.pop().stop_here()
                gate.set()
            client.sendall(data)
    if held:  # the engine died instead of answering
        held.pop().stop_here()
    # Also the direction of the asker ends: nothing more will come of it.
    for one in (client, upstream):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(CHUNK):
        target.sendall(data)


def _length(head: bytes) -> int:
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
