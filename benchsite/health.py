"""The health check at `/healthz`: open to anybody, answers within two seconds, names no host or path."""

import logging
import shutil
from dataclasses import dataclass

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connection, connections
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchsite.lib.bounded import Question, Unanswered
from runs.models import Worker
from runs.models.workers import STALE_AFTER

log = logging.getLogger(__name__)

SCHEMA = "benchsite.health/v1"
BOUND_S = 2.0
_REDIS_TIMEOUT_S = 1.0
OK, DEGRADED, FAILING = "ok", "degraded", "failing"
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Workers:
    """How many worker hosts are alive, went silent, were stopped on purpose, or were declared lost."""

    alive: int = 0
    stale: int = 0
    stopped: int = 0
    lost: int = 0


def count_workers() -> Workers:
    """One query over all worker hosts. A worker that was stopped, or never started, has no process; a stale one ceased
    to beat."""
    counts = dict.fromkeys(("alive", "stale", "stopped", "lost"), 0)
    recent = timezone.now() - STALE_AFTER
    for pid, heartbeat, lost in Worker.objects.values_list("pid", "heartbeat_at", "lost_declared_at"):
        if lost:
            counts["lost"] += 1
        elif pid is None or heartbeat is None:  # the last beat of a worker that stopped stays, for people to see
            counts["stopped"] += 1
        else:
            counts["alive" if heartbeat > recent else "stale"] += 1
    return Workers(**counts)


def free_share() -> tuple[int, int]:
    """Free and total bytes of the disk that holds the data folder."""
    usage = shutil.disk_usage(settings.DATA)
    return usage.free, usage.total


def _ask_database() -> Workers:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return count_workers()
    finally:
        connections.close_all()  # those of this thread


def _ask_redis() -> bool:
    """One attempt: the library's own retries would wait for seconds."""
    url = str(settings.RQ_QUEUES["default"]["URL"])
    never = Retry(NoBackoff(), 0)
    client = redis.Redis.from_url(
        url, socket_timeout=_REDIS_TIMEOUT_S, socket_connect_timeout=_REDIS_TIMEOUT_S, retry=never
    )
    with client:
        return bool(client.ping())


DATABASE = Question("database", _ask_database, bound_s=BOUND_S)
REDIS = Question("redis", _ask_redis, bound_s=BOUND_S)
DISK = Question("disk", free_share, bound_s=BOUND_S)


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 while the site can serve, degraded or not; 503 when the database or the queue does not answer."""
    document, failing = health()
    response = JsonResponse(document, status=503 if failing else 200)
    response["Cache-Control"] = "no-store"
    return response


def health() -> tuple[dict[str, object], bool]:
    """The document, and whether the site cannot serve."""
    for question in (DATABASE, REDIS, DISK):
        question.begin()
    workers, queue, disk = _answer(DATABASE), _answer(REDIS), _answer(DISK)
    checks: dict[str, dict[str, object]] = {
        "database": {"status": FAILING if workers is None else OK},
        "redis": {"status": OK if queue else FAILING},
        "workers": _workers(workers),
        "disk": {"status": OK if disk and disk[0] >= settings.DISK_LOW_MIB * _MIB else DEGRADED},
    }
    seen = {check["status"] for check in checks.values()}
    status = FAILING if FAILING in seen else DEGRADED if seen != {OK} else OK
    return {"schema": SCHEMA, "status": status, "checks": checks}, status == FAILING


def _workers(found: Workers | None) -> dict[str, object]:
    if found is None:
        return {"status": DEGRADED}
    status = OK if found.alive and not found.stale else DEGRADED
    return {"status": status, "alive": found.alive, "stale": found.stale}


def _answer[T](question: Question[T]) -> T | None:
    try:
        return question.answer()
    except Unanswered as error:
        log.warning("%s", error)  # the kind of failure only: a driver's text can hold a password
        return None
