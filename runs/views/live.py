"""How does a page keep itself up to date? It asks one address with the tags of its parts; 304 while they are true.

What changed comes back alone, each part into its own place, with the tags to ask with from then on. Many people may
watch one run: what was made for one of them is remembered for a second, in this process, and given to everybody who
may see the same.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils.html import escapejs, format_html
from django.utils.safestring import SafeString, mark_safe

from runs import access

_ASKS = ' hx-get="{}" hx-trigger="every {}s" hx-swap="outerHTML" hx-headers=\'{{"If-None-Match": "{}"}}\''
_PART = '<div id="panel-{0}" data-panel="{0}"{1}>{2}</div>'
_INTO_ITS_PLACE = mark_safe(' hx-swap-oob="true"')
_QUANTUM_S = 5
_REMEMBERED_S = 1.0
# A form's token differs in every answer; what is shown does not.
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')


@dataclass(frozen=True, slots=True)
class Part:
    """``inner`` is the finished content of the part ``name``, ``tag`` identifies it."""

    name: str
    inner: SafeString
    tag: str

    @property
    def placed(self) -> SafeString:
        """The part as it stands in its page."""
        return format_html(_PART, self.name, "", self.inner)

    @property
    def sent(self) -> SafeString:
        """The part as an answer brings it to a page that has an older one."""
        return format_html(_PART, self.name, _INTO_ITS_PLACE, self.inner)


@dataclass(frozen=True, slots=True)
class Live:
    """The parts of a page that ask ``address`` for themselves every ``every_s`` seconds; 0 when nothing changes any
    more."""

    parts: tuple[Part, ...]
    address: str
    every_s: int

    @property
    def tag(self) -> str:
        """One tag for all: each part's own, and whether the page goes on asking, which is news too."""
        return f'"{".".join([*(part.tag for part in self.parts), str(self.every_s)])}"'

    @property
    def placed(self) -> dict[str, SafeString]:
        """Each part by its name, and the ``poller`` of them all."""
        return {"poller": self.poller} | {part.name: part.placed for part in self.parts}

    @property
    def poller(self) -> SafeString:
        """What asks; an empty place once nothing changes any more."""
        asks = format_html(_ASKS, self.address, self.every_s, escapejs(self.tag)) if self.every_s else ""
        return format_html('<div id="poller" hidden{}></div>', asks)

    def since(self, known: str) -> SafeString:
        """The parts whose tags are not among the ``known`` ones, and the poller that has them all."""
        tags = frozenset(known.strip('"').split("."))
        news = [part.sent for part in self.parts if part.tag not in tags]
        return mark_safe("\n".join([self.poller, *news]))


def part(name: str, inner: SafeString) -> Part:
    """The part ``name`` with the tag of what it shows."""
    content = f"{name} {_TOKEN.sub('', inner)}".encode("utf-8", "replace")
    return Part(name, inner, hashlib.sha256(content).hexdigest()[:24])


def remembered(request: HttpRequest, make: Callable[[], Live]) -> Live:
    """What is at this address as it was made less than a second ago for somebody of the same permissions."""
    seen = [str(access.may(request.user, permission)) for permission in access.SEEN_IN_PANELS]
    name = f"live-{hashlib.sha256('\n'.join([request.get_full_path(), *seen]).encode()).hexdigest()}"
    if (known := cache.get(name)) is not None:
        parts, address, every_s = known
        return Live(tuple(_for_this_reader(request, parts)), address, every_s)
    live = make()
    plain = [(part.name, str(part.inner), part.tag) for part in live.parts]
    cache.set(name, (plain, live.address, live.every_s), _REMEMBERED_S)
    return live


def _for_this_reader(request: HttpRequest, parts: Iterable[tuple[str, str, str]]) -> Iterable[Part]:
    """The parts with this reader's own token in their forms."""
    for name, inner, tag in parts:
        if _TOKEN.search(inner):
            inner = _TOKEN.sub(f'name="csrfmiddlewaretoken" value="{get_token(request)}"', inner)
        yield Part(name, mark_safe(inner), tag)


def answered(request: HttpRequest, live: Live) -> HttpResponse:
    """What changed since the tags that the reader has, or 304 when nothing did."""
    known = request.headers.get("If-None-Match", "")
    response = HttpResponse(status=304) if known == live.tag else HttpResponse(live.since(known))
    response["ETag"] = live.tag
    response["Cache-Control"] = "private, no-store"
    return response


def quantised(now: datetime) -> datetime:
    """The clock of what grows moves every few seconds, so that most polls find nothing changed."""
    return now - timedelta(seconds=now.timestamp() % _QUANTUM_S)
