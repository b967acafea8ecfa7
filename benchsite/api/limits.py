"""How many requests a token may make in a minute, counted in the queue's Redis for all processes of the site.

When that cannot be reached each process counts for itself: a site without its queue still answers.
"""

import threading
import time

import redis
from django.conf import settings

WINDOW_S = 60

_here: dict[str, int] = {}
_lock = threading.Lock()


def wait_s(key: str) -> int:
    """Count one request of the token; 0 when it may be answered, else the seconds until the next minute begins."""
    most, now = int(settings.API_REQUESTS_PER_MINUTE), time.time()
    minute = int(now // WINDOW_S)
    if not most or _count(f"benchsite:api:{key}:{minute}") <= most:
        return 0
    return max(1, int((minute + 1) * WINDOW_S - now) + 1)


def _count(name: str) -> int:
    url = str(settings.RQ_QUEUES["default"]["URL"])
    try:
        with (
            redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5) as client,
            client.pipeline() as pipe,
        ):
            pipe.incr(name)
            pipe.expire(name, 2 * WINDOW_S)
            return int(pipe.execute()[0])
    except redis.RedisError:
        with _lock:
            minute = name.rpartition(":")[2]
            for old in [other for other in _here if other.rpartition(":")[2] != minute]:
                del _here[old]
            _here[name] = _here.get(name, 0) + 1
            return _here[name]
