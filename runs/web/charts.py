"""Charts of times and outcomes as server-rendered SVG: geometry in attributes, hue by class, words for all.

Every picture has a text alternative or stands beside its numbers; no style attribute, no script.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

from runs.web.presenting.counts import Share
from runs.web.presenting.trials import Stretch

_WIDTH = 240.0
_ENDS = 226.0  # the clock's last tick, so that a result's shape still fits behind it
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_THINNEST = 1.5


@dataclass(frozen=True, slots=True)
class Clock:
    """A common scale: ``seconds`` from zero to its last tick, with a tick every ``step`` seconds."""

    seconds: float
    step: int

    @classmethod
    def over(cls, longest: float) -> "Clock":
        """The clock that ends at the first tick at or beyond ``longest``, with at most six steps."""
        wanted = max(longest, 1.0)
        step = next((step for step in _STEPS if wanted / step <= 6), _STEPS[-1])
        ticks = max(1, -(-int(wanted * 1000) // (step * 1000)))
        return cls(float(ticks * step), step)

    def x(self, seconds: float, width: float = _ENDS) -> float:
        return min(max(seconds, 0.0), self.seconds * 1.02) / self.seconds * width

    def ticks(self) -> list[int]:
        return list(range(0, int(self.seconds) + 1, self.step))

    @property
    def unit(self) -> tuple[int, str]:
        """Divisor and word of the axis."""
        if self.step >= 3600:
            return 3600, "h"
        return (60, "min") if self.step >= 60 else (1, "s")


def axis(clock: Clock) -> SafeString:
    """The head of the stages column."""
    divisor, unit = clock.unit
    marks = format_html_join(
        "",
        '<text x="{}" y="12" text-anchor="{}">{}</text>',
        (
            (_tick_x(tick, clock), _anchor(tick, clock), _tick_word(tick, clock, divisor, unit))
            for tick in clock.ticks()
        ),
    )
    return format_html('<svg class="clock" viewBox="0 0 240 16" aria-hidden="true">{}</svg>', marks)


def _tick_x(tick: int, clock: Clock) -> str:
    """The last word stands at the picture's edge, away from the one before it."""
    return f"{_WIDTH:.0f}" if _anchor(tick, clock) == "end" else f"{clock.x(tick):.1f}"


def _anchor(tick: int, clock: Clock) -> str:
    if tick == 0:
        return "start"
    return "end" if tick == clock.ticks()[-1] and clock.x(tick) > 200 else "middle"


def _tick_word(tick: int, clock: Clock, divisor: int, unit: str) -> str:
    value = f"{tick // divisor}"
    return f"{value} {unit}" if tick == clock.ticks()[-1] else value


def stages(clock: Clock, stretches: Sequence[Stretch], kind: str, words_aloud: str) -> SafeString:
    """One row of the table: the stages of a trial, then its result's shape."""
    end = max((part.start + part.seconds for part in stretches), default=None)
    shape = ""
    if end is not None and kind:
        x = min(clock.x(end) + 4, _WIDTH - 14)
        shape = (
            f'<svg class="icon {escape(kind)}" x="{x:.1f}" y="3" width="14" height="14" viewBox="0 0 16 16">'
            f'<use href="#i-{escape(kind)}"/></svg>'
        )
    bars = "".join(_bar(clock, part) for part in stretches)
    # Drawn fifty times on a page: every part is a number, our own word or escaped here.
    return mark_safe(
        f'<svg class="clock" viewBox="0 0 240 20" role="img" aria-label="{escape(capfirst(words_aloud))}">'
        f'{_grid(clock)}<path class="base" d="M0 10h240"/>{bars}{shape}</svg>'
    )


@lru_cache(maxsize=32)
def _grid(clock: Clock) -> SafeString:
    """The ticks' lines, the same in every row of a table."""
    return format_html_join(
        "", '<path class="grid" d="M{} 0v20"/>', ((f"{clock.x(tick):.1f}",) for tick in clock.ticks())
    )


def _bar(clock: Clock, part: Stretch) -> str:
    x = clock.x(part.start)
    width = max(clock.x(part.start + part.seconds) - x, _THINNEST)
    return f'<rect class="f-{escape(part.kind)}" x="{x:.1f}" y="5" width="{width:.1f}" height="10" rx="1"/>'


def timeline(stretches: Sequence[Stretch], *, label: str, limit: tuple[float, str] | None = None) -> SafeString:
    """The stages of one trial over the whole width, in seconds from its start; a reached limit has its line."""
    longest = max([part.start + part.seconds for part in stretches] + [limit[0] if limit else 0.0, 1.0])
    clock = Clock.over(longest)

    def percent(seconds: float) -> str:
        return f"{clock.x(seconds, 97.0):.3f}%"

    divisor, unit = clock.unit
    grid = format_html_join(
        "",
        '<line class="grid" x1="{0}" x2="{0}" y1="0" y2="36"/><text x="{0}" y="50" text-anchor="{1}">{2}</text>',
        (
            (percent(tick), "start" if tick == 0 else "middle", _tick_word(tick, clock, divisor, unit))
            for tick in clock.ticks()
        ),
    )
    bars = format_html_join(
        "",
        '<rect class="f-{}" x="{}" y="8" width="{}" height="20" rx="2"/>',
        (
            (part.kind, percent(part.start), f"{max(part.seconds / clock.seconds * 97.0, 0.15):.3f}%")
            for part in stretches
        ),
    )
    agent = next((part for part in stretches if part.kind == "agent"), None)
    word: SafeString | str = ""
    if agent is not None and agent.seconds / clock.seconds > 0.12:
        word = format_html('<text class="on" x="{}" y="22" dx="8">agent</text>', percent(agent.start))
    line: SafeString | str = ""
    if limit is not None:
        line = format_html(
            '<line class="limit" x1="{0}" x2="{0}" y1="0" y2="38"/>'
            '<text class="limit-word" x="{0}" y="22" dx="6">{1}</text>',
            percent(limit[0]),
            limit[1],
        )
    return format_html(
        '<svg class="clock" width="100%" height="56" role="img" aria-label="{}">{}{}{}{}</svg>',
        label,
        grid,
        bars,
        word,
        line,
    )


def share(shares: Iterable[Share], label: str, height: int = 12) -> SafeString:
    """The outcome bar: every trial of a run by its bucket."""
    bars = format_html_join(
        "",
        '<rect class="f-{}" x="{}" width="{}" height="{}"/>',
        ((part.kind, part.x, part.width, height) for part in shares),
    )
    return format_html(
        '<svg class="share" width="100%" height="{}" role="img" aria-label="{}">{}</svg>', height, label, bars
    )


def strip(shares: Iterable[Share], label: str) -> SafeString:
    """The outcome bar of one run in a list, small and framed."""
    bars = "".join(
        f'<rect class="f-{escape(part.kind)}" x="{escape(part.x)}" width="{escape(part.width)}" height="12"/>'
        for part in shares
    )
    return mark_safe(f'<svg class="strip" width="96" height="12" role="img" aria-label="{escape(label)}">{bars}</svg>')


@dataclass(frozen=True, slots=True)
class Beat:
    """One run in a history: its mark's kind, its address, what is said when it is pointed at."""

    kind: str
    href: str
    title: str


_SHAPES = {
    "passed": '<rect class="f-passed" x="{x}" y="2" width="7" height="18" rx="1"/>',
    "failed": '<rect class="f-failed" x="{x}" y="2" width="7" height="18" rx="1"/>',
    "error": '<path class="h-error" d="M{m} 7l4.4 13h-8.8z"/>',
    "incomplete": '<path class="h-error" d="M{m} 7l4.4 13h-8.8z"/>',
    "cancelled": '<rect class="h-cancelled" x="{x}" y="16" width="7" height="4" rx="1"/>',
}
_ELSE = '<circle class="h-rest" cx="{m}" cy="17" r="2.5"/>'


def history(beats: Sequence[Beat], label: str) -> SafeString:
    """Runs in order, newest at the right: a tall bar for graded ones, other shapes and heights for the rest."""
    parts = []
    for index, beat in enumerate(beats):
        x = index * 11
        shape = _SHAPES.get(beat.kind, _ELSE).format(x=x, m=x + 3.5)
        parts.append(
            format_html(
                '<a href="{}"><title>{}</title><rect x="{}" width="10" height="22" fill="transparent"/>{}</a>',
                beat.href,
                beat.title,
                x - 1,
                mark_safe(shape),
            )
        )
    width = max(len(beats) * 11, 11)
    return format_html(
        '<svg class="history" viewBox="-2 0 {0} 22" width="{0}" height="22" role="group" aria-label="{1}">{2}</svg>',
        width,
        label,
        mark_safe("".join(parts)),
    )


def meter(share_of_limit: float, tone: str = "") -> SafeString:
    """How much of a limit was used; ``tone`` is ``hit`` or ``now``. The numbers stand beside it."""
    width = f"{min(max(share_of_limit, 0.0), 1.0):.2%}"
    return format_html(
        '<svg class="meter" width="100%" height="6" aria-hidden="true">'
        '<rect class="track" width="100%" height="6" rx="3"/>'
        '<rect class="fill {}" width="{}" height="6" rx="3"/></svg>',
        tone,
        width,
    )
