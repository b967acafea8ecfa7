"""A real proxy before the real engine that quietly leaves a limit out of every container that is created.

Nothing else of the engine is imitated: what a probe then sees is what an engine that lacks the limit would show.
"""

import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

type Change = Callable[[dict[str, Any]], object]

_HEAD_END = b"\r\n\r\n"


def _without_ulimit(name: str) -> Change:
    def change(host: dict[str, Any]) -> None:
        host["Ulimits"] = [limit for limit in host["Ulimits"] if limit["Name"] != name]

    return change


WITHHELD: dict[str, Change] = {
    "cpu": lambda host: host.update(NanoCpus=0),
    "memory": lambda host: host.update(Memory=0, MemorySwap=0),
    "pids": lambda host: host.update(PidsLimit=0),
    "nofile": _without_ulimit("nofile"),
    "storage": lambda host: host.update(Tmpfs=dict.fromkeys(host["Tmpfs"], "rw")),
    "read_only_root": lambda host: host.update(ReadonlyRootfs=False),
    "capabilities": lambda host: host.update(CapDrop=[]),
    "no_new_privileges": lambda host: host.update(SecurityOpt=[]),
    "seccomp": lambda host: host.update(SecurityOpt=[*host["SecurityOpt"], "seccomp=unconfined"]),
    "core": _without_ulimit("core"),
    "no_network": lambda host: host.update(NetworkMode="bridge") if host["NetworkMode"] == "none" else None,
}


@contextmanager
def withholding(*names: str) -> Iterator[str]:
    """An engine that enforces everything but these limits; gives its `DOCKER_HOST`."""
    folder = Path(tempfile.mkdtemp(prefix="bw-"))  # short: sockets have short names
    with _Proxy(str(folder / "engine.sock"), [WITHHELD[name] for name in names]) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        yield f"unix://{proxy.server_address}"
        proxy.shutdown()
        thread.join(5)
    shutil.rmtree(folder)


class _Proxy(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: str, changes: list[Change]) -> None:
        self.changes = changes
        super().__init__(path, _Exchange)


class _Exchange(socketserver.BaseRequestHandler):
    """One request of one connection: no connection is kept, so that each request is seen."""

    server: _Proxy

    def handle(self) -> None:
        head, rest = self._head()
        if not head:
            return
        if b"/containers/create" in head.split(b"\r\n", 1)[0]:
            head, rest = self._changed(head, rest)
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(_engine_socket())
            engine.sendall(_closing(head) + _HEAD_END + rest)
            forward = threading.Thread(target=_copy, args=(self.request, engine), daemon=True)
            forward.start()
            _copy(engine, self.request)

    def _head(self) -> tuple[bytes, bytes]:
        received = b""
        while _HEAD_END not in received:
            part = self.request.recv(65536)
            if not part:
                return b"", b""
            received += part
        head, _, rest = received.partition(_HEAD_END)
        return head, rest

    def _changed(self, head: bytes, rest: bytes) -> tuple[bytes, bytes]:
        lines = head.split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:"))
        while len(rest) < length:
            rest += self.request.recv(65536)
        document = json.loads(rest)
        for change in self.server.changes:
            change(document["HostConfig"])
        body = json.dumps(document).encode()
        kept = [line for line in lines if not line.lower().startswith(b"content-length:")]
        return b"\r\n".join([*kept, b"Content-Length: %d" % len(body)]), body


def _closing(head: bytes) -> bytes:
    """The same head, but for one exchange only; one that becomes a stream stays as it is."""
    lines = head.split(b"\r\n")
    if any(line.lower().startswith(b"upgrade:") for line in lines):
        return head
    return b"\r\n".join(
        [*(line for line in lines if not line.lower().startswith(b"connection:")), b"Connection: close"]
    )


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _engine_socket() -> str:
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
