"""The smallest parts of a page as markup: icons, results, digests, moments. No decisions, every text escaped."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from django.utils.html import format_html
from django.utils.safestring import SafeString

_DIGEST_SHORT = 12  # characters that stay visible: the first eight and the last four


class Shown(Protocol):
    """Something with a shape and a word, such as ``runs.web.presenting.status_marks.Mark``."""

    @property
    def kind(self) -> str: ...

    @property
    def word(self) -> str: ...


@lru_cache(maxsize=256)
def icon(name: str, tone: str = "") -> SafeString:
    """A decorative icon of the page's sprite; the words beside it carry the meaning."""
    return format_html(
        '<svg class="icon {}" viewBox="0 0 16 16" aria-hidden="true"><use href="#i-{}"/></svg>', tone, name
    )


def result(mark: Shown) -> SafeString:
    """Shape, word and hue, always all three."""
    return _result(mark.kind, mark.word)


@lru_cache(maxsize=256)
def _result(kind: str, word: str) -> SafeString:
    return format_html('<span class="result {0}">{1}{2}</span>', kind, icon(kind), word)


def dot(mark: Shown) -> SafeString:
    """A result as its shape alone, with the word for those who do not see it."""
    return format_html(
        '<svg class="icon {0}" viewBox="0 0 16 16" role="img" aria-label="{1}">'
        '<title>{1}</title><use href="#i-{0}"/></svg>',
        mark.kind,
        mark.word,
    )


@lru_cache(maxsize=64)
def unknown(words: str = "not recorded") -> SafeString:
    return format_html('<i class="unknown">{}</i>', words)


def digest(value: str, label: str) -> SafeString:
    """A hash or id: short to the eye, whole in the text, selected by one click, copied by a button."""
    if not value:
        return unknown()
    prefix, _, body = value.rpartition(":")
    head = f"{prefix}:{body[:8]}" if prefix else body[:8]
    if len(body) <= _DIGEST_SHORT:
        return format_html('<span class="digest"><code>{}</code></span>', value)
    return format_html(
        '<span class="digest"><code>{}<span class="middle">{}</span>{}</code>'
        '<button type="button" class="copy" aria-label="Copy {}">{}</button></span>',
        head,
        body[8:-4],
        body[-4:],
        label,
        icon("copy"),
    )


_SHAPES = {
    "full": "%-d %b %Y, %H:%M:%S UTC",
    "minute": "%-d %b %Y, %H:%M UTC",
    "short": "%-d %b, %H:%M",
    "clock": "%H:%M:%S",
    "day": "%-d %b %Y",
}


def moment(at: datetime | None, shape: str = "full") -> SafeString:
    """A time in UTC; a missing one is said in words."""
    if at is None:
        return unknown()
    utc = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        utc.strftime(_SHAPES["full"]),
        utc.strftime(_SHAPES[shape]),
    )
