"""Rows that a page of experiments has many of as markup; every text is escaped here. Without decisions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString, mark_safe

from benchsite.lib.markup import digest, dot, unknown
from benchsite.lib.words import NOT_REPORTED
from runs.web.presenting.status_marks import Mark


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case of an experiment. ``attempts`` are (address, words, mark); ``more`` are not drawn."""

    name: str
    address: str
    passed: str
    attempts: Sequence[tuple[str, str, Mark]]
    more: int
    note: str
    took: str
    cost: str
    checksum: str


def cases(rows: Iterable[CaseRow]) -> SafeString:
    """The body of the table cases × attempts."""
    return mark_safe("\n".join(_case(row) for row in rows))


def _case(row: CaseRow) -> str:
    passed = f"<b>{escape(row.passed)}</b> passed" if row.passed else '<span class="quiet">never graded</span>'
    note = f'<small class="wrap">{escape(row.note)}</small>' if row.note else ""
    more = f'<span class="quiet">and {row.more:,} more</span>' if row.more else ""
    return (
        f'<tr><th scope="row" class="lead-cell"><a class="name" href="{escape(row.address)}">{escape(row.name)}</a>'
        f'</th><td class="side-cell">{passed}</td>'
        f'<td><span class="attempts">{attempts(row.attempts)}{more}</span>{note}</td>'
        f'<td class="num fact">{escape(row.took) or unknown(NOT_REPORTED)}</td>'
        f'<td class="num fact"><span class="unit">cost </span>{escape(row.cost) or unknown(NOT_REPORTED)}</td>'
        f'<td class="fact">{digest(row.checksum, "the checksum of the task")}</td></tr>'
    )


def attempts(of: Iterable[tuple[str, str, Mark]]) -> SafeString:
    """Each attempt as its shape, leading to its page; read as words."""
    return mark_safe("".join(f'<a href="{escape(address)}">{_shape(mark, said)}</a>' for address, said, mark in of))


def _shape(mark: Mark, said: str) -> SafeString:
    return dot(Mark(mark.kind, f"{said}: {mark.word.lower()}"))
