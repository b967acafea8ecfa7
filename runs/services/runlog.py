"""A run's bounded log: 4,096 characters a line, 1,000 lines or 1 MiB a run."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from benchsite.lib.database import retrying_database
from runs.models import LogLine, Run
from runs.models.resources import LOG_BYTES_KEPT, LOG_LINES_KEPT, LOG_TEXT_LIMIT


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line as it is handed in; ``source`` says who spoke (``engine``, ``harness``, ``gateway`` …)."""

    source: str
    text: str
    at: datetime = field(default_factory=timezone.now)


@dataclass(frozen=True, kw_only=True)
class Window:
    """Lines after a cursor. ``next_cursor`` continues; ``dropped`` older lines are gone for good."""

    lines: list[LogLine]
    next_cursor: int
    dropped: int


@retrying_database
def append_log(run_id: uuid.UUID | str, lines: Iterable[Line]) -> int:
    """Add lines and drop the oldest beyond the bounds, counting them on the run. Returns how many were added.

    Lines beyond what could be kept are counted as dropped without being stored; an unknown run adds nothing.
    """
    pk = run_id if isinstance(run_id, uuid.UUID) else uuid.UUID(run_id)
    given = list(lines)
    kept = given[-LOG_LINES_KEPT:]
    with transaction.atomic():
        # This update is also what serialises writers: the row stays ours until the transaction ends.
        if not given or not Run.objects.filter(pk=pk).update(log_next=F("log_next") + len(given)):
            return 0
        end = Run.objects.values_list("log_next", flat=True).get(pk=pk)
        first = end - len(kept)
        LogLine.objects.bulk_create([_row(pk, first + index, line) for index, line in enumerate(kept)])
        _drop_older(pk)
        stored = LogLine.objects.filter(run_id=pk).count()
        Run.objects.filter(pk=pk).update(log_dropped=F("log_next") - stored)
    return len(given)


def read_log(run: Run, *, cursor: int = 0, limit: int = 200) -> Window:
    """At most ``limit`` lines with ``seq >= cursor``, oldest first."""
    lines = list(LogLine.objects.filter(run=run, seq__gte=cursor).order_by("seq")[:limit])
    following = lines[-1].seq + 1 if lines else max(cursor, 0)
    dropped = Run.objects.values_list("log_dropped", flat=True).get(pk=run.pk)
    return Window(lines=lines, next_cursor=following, dropped=dropped)


def clear(run_id: uuid.UUID) -> int:
    """Remove every line of a run that is over, and count them as dropped. Returns how many there were."""
    with transaction.atomic():
        Run.objects.filter(pk=run_id).update(log_dropped=F("log_next"))
        removed, _by_model = LogLine.objects.filter(run_id=run_id).delete()
    return removed


def _row(pk: uuid.UUID, seq: int, line: Line) -> LogLine:
    text = line.text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    cut = len(text) > LOG_TEXT_LIMIT
    text = text[:LOG_TEXT_LIMIT]
    size = len(text.encode())
    return LogLine(run_id=pk, seq=seq, at=line.at, source=line.source[:32], text=text, size=size, cut=cut)


def _drop_older(pk: uuid.UUID) -> None:
    count = total = 0
    for seq, size in LogLine.objects.filter(run_id=pk).order_by("-seq").values_list("seq", "size"):
        count, total = count + 1, total + size
        if count > LOG_LINES_KEPT or total > LOG_BYTES_KEPT:
            LogLine.objects.filter(run_id=pk, seq__lte=seq).delete()
            return
