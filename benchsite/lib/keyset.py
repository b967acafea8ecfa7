"""Windows of long lists by key: page 400 costs what page 1 costs. Rows have ``created_at`` and ``id``, newest first."""

from dataclasses import dataclass
from typing import Any, Protocol

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest


class Anchor(Protocol):
    """The row that a window begins behind or ends before."""

    created_at: Any
    id: Any


@dataclass(frozen=True, slots=True)
class Window[Row: Model]:
    """The rows of a page, newest first, and whether there are more on either side."""

    rows: list[Row]
    newer: bool
    older: bool


def window[Row: Model](found: "QuerySet[Row]", anchor: Anchor | None, direction: str, size: int) -> Window[Row]:
    """The newest rows, or those right ``before`` or ``after`` the anchor."""
    if anchor is None:
        rows = list(found[: size + 1])
        return Window(rows[:size], newer=False, older=len(rows) > size)
    if direction == "before":
        older = Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, id__lt=anchor.id)
        rows = list(found.filter(older)[: size + 1])
        return Window(rows[:size], newer=True, older=len(rows) > size)
    newer = Q(created_at__gt=anchor.created_at) | Q(created_at=anchor.created_at, id__gt=anchor.id)
    rows = list(found.filter(newer).order_by("created_at", "id")[: size + 1])
    return Window(rows[:size][::-1], newer=len(rows) > size, older=True)


def address(request: HttpRequest, **cursor: str) -> str:
    """This page's query with another cursor."""
    query = request.GET.copy()
    for name in ("before", "after"):
        query.pop(name, None)
    query.update(cursor)
    return f"?{query.urlencode()}"
