"""Live updates of pages: a page polls one address with the tags of its parts; 304 while none has changed.

What changed comes back alone, each part into its own place, with the tags to ask with from then on. Many people may
watch one run: what was made for one of them is remembered for a second, in this process, and given to everybody who
may see the same.
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

from runs.services import access

_ASKS = ' hx-get="{}" hx-trigger="every {}s" hx-swap="outerHTML" hx-headers=\'{{"If-None-Match": "{}"}}\''
_PART = '<div id="panel-{0}" data-panel="{0}"{1}>{2}</div>'
_INTO_ITS_PLACE = mark_safe(' hx-swap-oob="true"')
_QUANTUM_S = 5
_REMEMBERED_S = 1.0
# A form's token is its reader's own and differs in every answer; what is shown does not.
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')
_NO_TOKEN = 'name="csrfmiddlewaretoken" value=""'


@dataclass(frozen=True, slots=True)
class Part:
    """``inner`` is the finished content of the part ``name``, its forms without a token; ``tag`` identifies it."""

    name: str
    inner: SafeString
    tag: str

    def html(self, request: HttpRequest, where: str = "") -> SafeString:
        """The part for this reader, with the token of their own in its forms."""
        inner: str = self.inner
        if _NO_TOKEN in inner:
            inner = inner.replace(_NO_TOKEN, f'name="csrfmiddlewaretoken" value="{get_token(request)}"')
        return format_html(_PART, self.name, where, mark_safe(inner))


@dataclass(frozen=True, slots=True)
class Live:
    """The parts of a page that asks ``address`` for them every ``every_s`` seconds; 0 when nothing changes any more."""

    parts: tuple[Part, ...]
    address: str
    every_s: int

    @property
    def tag(self) -> str:
        """One tag for all: each part's own, and whether the page goes on asking, which is news too."""
        return f'"{".".join([*(part.tag for part in self.parts), str(self.every_s)])}"'

    @property
    def poller(self) -> SafeString:
        """What asks; an empty place once nothing changes any more."""
        asks = format_html(_ASKS, self.address, self.every_s, escapejs(self.tag)) if self.every_s else ""
        return format_html('<div id="poller" hidden{}></div>', asks)

    def placed(self, request: HttpRequest) -> dict[str, SafeString]:
        """Each part by its name as it stands in the page, and the ``poller`` of them all."""
        return {"poller": self.poller} | {part.name: part.html(request) for part in self.parts}

    def news(self, request: HttpRequest, known: str) -> SafeString:
        """The poller that has them all, and the parts whose tags are not among the ``known`` ones."""
        tags = frozenset(known.strip('"').split("."))
        changed = [part.html(request, _INTO_ITS_PLACE) for part in self.parts if part.tag not in tags]
        return mark_safe("\n".join([self.poller, *changed]))


def part(name: str, inner: SafeString) -> Part:
    """The part ``name`` with the tag of what it shows."""
    content = _TOKEN.sub(_NO_TOKEN, inner)
    tag = hashlib.sha256(f"{name} {content}".encode("utf-8", "replace")).hexdigest()[:24]
    return Part(name, mark_safe(content), tag)


def remembered(request: HttpRequest, make: Callable[[], Live], *, state: str = "") -> Live:
    """What is at this address as it was made less than a second ago for somebody of the same permissions.

    With a ``state``, only what was made of the same one: a page must show what its reader has just done.
    """
    seen = [str(access.may(request.user, permission)) for permission in access.SEEN_IN_PANELS]
    asked = "\n".join([request.get_full_path(), state, *seen])
    name = f"live-{hashlib.sha256(asked.encode()).hexdigest()}"
    known: Live | None = cache.get(name)
    if known is None:
        known = make()
        cache.set(name, known, _REMEMBERED_S)
    return known


def answered(request: HttpRequest, live: Live) -> HttpResponse:
    """What changed since the tags that the reader has, or 304 when nothing did."""
    known = request.headers.get("If-None-Match", "")
    response = HttpResponse(status=304) if known == live.tag else HttpResponse(live.news(request, known))
    response["ETag"] = live.tag
    response["Cache-Control"] = "private, no-store"
    return response


def quantised(now: datetime) -> datetime:
    """The clock of what grows moves every few seconds, so that most polls find nothing changed."""
    return now - timedelta(seconds=now.timestamp() % _QUANTUM_S)
