"""The bound on failed sign-ins, which are counted per name and address, and per address.

Of IPv6 the network of 64 bits counts as one address, since its owner can take a new one for each try.
The counts live in the queue's Redis, so that all web processes share them; when it cannot be reached they
live in this process, because a site without its queue must still let people in.
"""

import hashlib
import threading
import time
from collections import defaultdict

import redis
from django.conf import settings

from benchsite.accounts.client_address import network_of

WINDOW_S = 300
PER_NAME = 5
PER_ADDRESS = 30

_here: dict[str, list[float]] = defaultdict(list)
_lock = threading.Lock()


def blocked(name: str, address: str) -> bool:
    """Whether one of the two bounds is reached within the window."""
    by_name, by_address = _keys(name, address)
    return _count(by_name) >= PER_NAME or _count(by_address) >= PER_ADDRESS


def begun(name: str, address: str) -> bool:
    """Whether one more may be tried; if so it counts as a failure until it succeeds.

    It is counted before the password is looked at, so that many at once are no more than one after another.
    """
    if blocked(name, address):
        return False
    by_name, by_address = failed(name, address)
    return by_name <= PER_NAME and by_address <= PER_ADDRESS


def failed(name: str, address: str) -> tuple[int, int]:
    """Count one failure; how many there are now, of the name at this address and of the address."""
    by_name, by_address = _keys(name, address)
    return _add(by_name), _add(by_address)


def succeeded(name: str, address: str) -> None:
    """Forget the failures of this name at this address; those of the address stay, but for the try that succeeded."""
    by_name, by_address = _keys(name, address)
    with _lock:
        _here.pop(by_name, None)
        if by_address in _here:
            _here[by_address] = _here[by_address][:-1]
    try:
        with _client() as client, client.pipeline() as pipe:
            pipe.delete(by_name)
            pipe.decr(by_address)
            pipe.expire(by_address, WINDOW_S)
            pipe.execute()
    except redis.RedisError:
        pass


def _keys(name: str, address: str) -> tuple[str, str]:
    address = network_of(address)
    folded = hashlib.sha256(f"{name.casefold()}\0{address}".encode()).hexdigest()[:32]
    return f"benchsite:login:{folded}", f"benchsite:login-from:{address}"


def _client() -> redis.Redis:
    url = str(settings.RQ_QUEUES["default"]["URL"])
    return redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5)


def _count(key: str) -> int:
    local = len([at for at in _here.get(key, ()) if at > time.monotonic() - WINDOW_S])
    try:
        with _client() as client:
            stored = client.get(key)
    except redis.RedisError:
        return local
    return max(local, int(stored or 0))


def _add(key: str) -> int:
    try:
        with _client() as client, client.pipeline() as pipe:
            pipe.incr(key)
            pipe.expire(key, WINDOW_S)
            return int(pipe.execute()[0])
    except redis.RedisError:
        now = time.monotonic()
        with _lock:
            _here[key] = [*(at for at in _here[key] if at > now - WINDOW_S), now][-PER_ADDRESS - 1 :]
            return len(_here[key])
