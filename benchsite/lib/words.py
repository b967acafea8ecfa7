"""Durations, sizes, numbers and missing values in words."""

from datetime import UTC, datetime
from math import floor

NOT_RECORDED = "not recorded"
NOT_REPORTED = "not reported"
_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def duration(seconds: float | None, *, exact: bool = False) -> str:
    """``1 min 53 s``; with ``exact`` tenths below a minute. None is said, never 0."""
    if seconds is None:
        return NOT_RECORDED
    if exact and seconds < 60:
        return f"{seconds:.1f} s"
    whole = max(0, floor(seconds + 0.5))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    return f"{rest} s"


def between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from start to end; None when either is missing."""
    if start is None or end is None:
        return None
    return (end - start).total_seconds()


def ago(at: datetime | None, now: datetime) -> str:
    """``2 s ago`` … ``3 days ago``."""
    if at is None:
        return "never"
    seconds = max(0.0, (now - at).total_seconds())
    if seconds < 90:
        return f"{int(seconds)} s ago"
    if seconds < 5400:
        return f"{round(seconds / 60)} min ago"
    if seconds < 129_600:
        return f"{round(seconds / 3600)} h ago"
    return f"{round(seconds / 86_400)} days ago"


def minute(at: datetime, now: datetime) -> str:
    """``14:05 UTC``; of another day ``28 Nov, 14:05 UTC``."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%-d %b, %H:%M} UTC"


def size(octets: int | None) -> str:
    """``16 B``, ``3.9 KiB``, ``5.9 MiB``."""
    if octets is None:
        return NOT_RECORDED
    value, unit = float(octets), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    if unit == "B" or value >= 100 or value == int(value):
        return f"{value:,.0f} {unit}"
    return f"{value:,.1f} {unit}"


def number(value: int | None) -> str:
    return NOT_RECORDED if value is None else f"{value:,}"


def money(units: int, currency: str) -> str:
    """Millionths of a millionth of a currency, to four decimals and never to 0 when it is more: ``0.0012 USD``."""
    shown = (units + 5 * 10**7) // 10**8  # ten-thousandths
    if units and not shown:
        return f"under 0.0001 {currency}"
    whole, rest = divmod(shown, 10_000)
    return f"{whole:,}.{rest:04d} {currency}"


def spelled(value: int) -> str:
    """Small numbers as words, as sentences have them."""
    return _SMALL[value] if 0 <= value < len(_SMALL) else f"{value:,}"


def counted(value: int, noun: str, plural: str = "") -> str:
    """``1 trial``, ``3 trials``."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def lowered(sentence: str) -> str:
    """The sentence as a part of another one."""
    return sentence[:1].lower() + sentence[1:]
