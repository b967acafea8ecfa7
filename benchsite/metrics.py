"""Metrics at `/metrics` for Prometheus, computed from the database when they are asked for.

No process keeps counters of its own: a site has several web processes and workers, and each would tell a part. Sums of
trials come from the counts that runs keep, so that a million trials cost no more than their runs.
"""

import platform
import secrets
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import django
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.db import DatabaseError, InterfaceError
from django.db.models import Count, Min, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from benchsite import __version__
from benchsite.accounts.client_address import is_direct_loopback
from benchsite.health import DISK, REDIS, count_workers
from benchsite.lib.bounded import Unanswered
from evidence.models import Artifact
from runs.models import Cleanup, Run, RunState, Stage, StageMark
from runs.outcomes.buckets import Bucket
from runs.services import access

WINDOW = timedelta(hours=24)
WINDOW_RUNS = 200
EVIDENCE_FRESH_FOR_S = 300
QUANTILES = (0.5, 0.95, 1.0)
_BUCKETS = tuple(bucket.value for bucket in Bucket)


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The numbers, for this host itself, whoever holds the token, and administrators; 403 for everybody else."""
    if not (is_direct_loopback(request.META) or _has_token(request) or access.may(request.user, access.VIEW_AUDIT)):
        return _plain(
            "metrics.refused: Ask from this host, send the bearer token, or sign in as an administrator.\n", 403
        )
    try:
        text = generate_latest(registry())
    except (DatabaseError, InterfaceError):
        return _plain("database.unusable: The database cannot be used at present.\n", 503)
    response = HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)
    response["Cache-Control"] = "no-store"
    return response


def _has_token(request: HttpRequest) -> bool:
    wanted = str(settings.METRICS_TOKEN)
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    same = secrets.compare_digest(given.strip().encode("utf-8", "replace"), wanted.encode())
    return bool(wanted) and scheme.casefold() == "bearer" and same


def _plain(text: str, status: int) -> HttpResponse:
    response = HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "no-store"
    return response


def registry() -> CollectorRegistry:
    """A registry of this one answer: nothing of the process's own stands in it."""
    made = CollectorRegistry()
    made.register(SiteCollector())
    return made


class SiteCollector(Collector):
    """Everything that a site counts, in a fixed number of queries."""

    def describe(self) -> list[Metric]:
        return []  # so that registering asks nothing

    def collect(self) -> Iterator[Metric]:
        now = timezone.now()
        versions = {"version": __version__, "python": platform.python_version(), "django": django.get_version()}
        yield InfoMetricFamily("benchsite_build", "What runs here", value=versions)
        yield from _runs(now)
        found = count_workers()
        states = {"alive": found.alive, "stale": found.stale, "stopped": found.stopped, "lost": found.lost}
        yield _labelled("workers", "Worker hosts by what is known of them", "state", states)
        # Two queries: the newest runs of the window that have ended, and when they entered their stages.
        seconds = GaugeMetricFamily(
            "benchsite_stage_seconds", "Seconds in a stage, of recent runs", labels=["stage", "quantile"]
        )
        samples = GaugeMetricFamily("benchsite_stage_samples", "How many durations that is made of", labels=["stage"])
        for stage, durations in sorted(_durations(now).items()):
            ordered = sorted(durations)
            samples.add_metric([stage], len(ordered))
            for quantile in QUANTILES:
                seconds.add_metric([stage, str(quantile)], ordered[ceil(quantile * len(ordered)) - 1])
        yield seconds
        yield samples
        stored = cache.get_or_set("metrics-evidence-bytes", _evidence_bytes, EVIDENCE_FRESH_FOR_S)
        yield gauge("evidence_bytes", "Bytes of stored evidence, at most five minutes old", stored or 0)
        # What this web host sees: its disk and the queue; nothing is said of a disk that does not answer.
        try:
            free, total = DISK.answer()
        except Unanswered:
            pass
        else:
            yield gauge("data_disk_free_bytes", "Free bytes of the disk of the data folder", free)
            yield gauge("data_disk_total_bytes", "All bytes of that disk", total)
        try:
            up = REDIS.answer()
        except Unanswered:
            up = False
        yield gauge("redis_up", "Whether the queue answers", float(up))


def gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"benchsite_{name}", what, value=value)


def _runs(now: datetime) -> Iterator[Metric]:
    """One query: runs by state, verdict and cleanup, with the counts that they keep of their trials."""
    runs = GaugeMetricFamily("benchsite_runs", "Runs by state and verdict", labels=["state", "verdict"])
    counted: dict[tuple[str, str], int] = defaultdict(int)
    trials = dict.fromkeys((*_BUCKETS, "open"), 0)
    waiting, oldest, unclean = 0, None, 0
    for group in _groups():
        counted[group["state"], group["verdict"] or "none"] += group["runs"]
        for bucket in _BUCKETS:
            trials[bucket] += group[bucket]
        trials["open"] += group["requested"] - sum(group[bucket] for bucket in _BUCKETS)
        unclean += group["runs"] if group["cleanup"] == Cleanup.FAILED else 0
        if group["state"] == RunState.QUEUED:
            waiting += group["runs"]
            oldest = min(oldest or group["oldest"], group["oldest"])
    for labels, number in sorted(counted.items()):
        runs.add_metric(labels, number)
    yield runs
    yield _labelled("trials", "Trials by bucket; open ones have none yet", "bucket", trials)
    yield gauge("queue_depth", "Runs that wait for their worker", waiting)
    age = (now - oldest).total_seconds() if oldest else 0.0
    yield gauge("queue_oldest_age_seconds", "How long the oldest of them has waited; 0 when none waits", max(0.0, age))
    yield gauge("cleanup_failed_runs", "Runs whose cleanup failed and did not succeed since", unclean)


def _groups() -> Any:
    sums = {bucket: Sum(f"count_{bucket}") for bucket in (*_BUCKETS, "requested")}
    grouped = Run.objects.order_by().values("state", "verdict", "cleanup")
    return grouped.annotate(runs=Count("pk"), oldest=Min("created_at"), **sums)


def _labelled(name: str, what: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"benchsite_{name}", what, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _durations(now: datetime) -> dict[str, list[float]]:
    recent: Any = Run.objects.filter(created_at__gte=now - WINDOW, ended_at__isnull=False, claimed_at__isnull=False)
    last = recent.order_by("-created_at", "-id")[:WINDOW_RUNS]
    times = {key: (made, claimed) for key, made, claimed in last.values_list("pk", "created_at", "claimed_at")}
    found: dict[str, list[float]] = defaultdict(list)
    for made, claimed in times.values():
        found[Stage.QUEUED.value].append(max(0.0, (claimed - made).total_seconds()))
    marks = StageMark.objects.filter(run_id__in=list(times)).order_by("run_id", "id")
    before: tuple[Any, str, datetime] | None = None
    for run, stage, at in marks.values_list("run_id", "stage", "at"):
        if before is not None and before[0] == run:
            found[before[1]].append(max(0.0, (at - before[2]).total_seconds()))
        before = (run, stage, at)
    return found


def _evidence_bytes() -> int:
    """The sum over the whole register, which no run keeps."""
    return Artifact.objects.exclude(stored="").aggregate(total=Sum("size"))["total"] or 0
