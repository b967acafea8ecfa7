"""How does a part of a page keep itself up to date? It says what it has, and is told 304 while that is true.

Many people may watch one run: what was made for one of them is remembered for a second, in this process, and given to
everybody who may see the same.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils.html import escapejs, format_html
from django.utils.safestring import SafeString, mark_safe

from runs import access

_ASKS = ' hx-get="{}" hx-trigger="every {}s" hx-swap="outerHTML" hx-headers=\'{{"If-None-Match": "{}"}}\''
_QUANTUM_S = 5
_REMEMBERED_S = 1.0
# A form's token differs in every answer; what is shown does not.
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')


@dataclass(frozen=True, slots=True)
class Panel:
    """``html`` is the finished part, ``tag`` identifies its content."""

    html: SafeString
    tag: str


def wrapped(inner: SafeString, *, name: str, address: str, every_s: int) -> Panel:
    """A part that asks ``address`` for itself every ``every_s`` seconds; 0 for one that never changes again."""
    # That a part polls no more is news too, even when nothing else of it changed.
    content = f"{every_s} {_TOKEN.sub('', inner)}".encode("utf-8", "replace")
    tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
    asks = format_html(_ASKS, address, every_s, escapejs(tag)) if every_s else ""
    follows = mark_safe(" data-follow") if name == "log" else ""
    return Panel(format_html('<div id="panel-{0}" data-panel="{0}"{1}{2}>{3}</div>', name, follows, asks, inner), tag)


def remembered(request: HttpRequest, make: Callable[[], Panel]) -> Panel:
    """The part at this address as it was made less than a second ago for somebody of the same permissions."""
    seen = [str(access.may(request.user, permission)) for permission in access.SEEN_IN_PANELS]
    asked = [request.get_full_path(), str("HX-Request" in request.headers), *seen]
    name = f"panel-{hashlib.sha256('\n'.join(asked).encode()).hexdigest()}"
    if (known := cache.get(name)) is not None:
        return Panel(_with_token(request, known[0]), known[1])
    panel = make()
    cache.set(name, (str(panel.html), panel.tag), _REMEMBERED_S)
    return panel


def _with_token(request: HttpRequest, html: str) -> SafeString:
    """A form of the part is this reader's own."""
    if _TOKEN.search(html) is None:
        return mark_safe(html)
    own = f'name="csrfmiddlewaretoken" value="{get_token(request)}"'
    return mark_safe(_TOKEN.sub(own, html))


def answered(request: HttpRequest, panel: Panel) -> HttpResponse:
    """The part on its own, or 304 when the reader has it already."""
    known = request.headers.get("If-None-Match") == panel.tag
    response = HttpResponse(status=304) if known else HttpResponse(panel.html)
    response["ETag"] = panel.tag
    response["Cache-Control"] = "private, no-store"
    return response


def quantised(now: datetime) -> datetime:
    """The clock of what grows moves every few seconds, so that most polls find nothing changed."""
    return now - timedelta(seconds=now.timestamp() % _QUANTUM_S)
