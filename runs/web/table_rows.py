"""Rows that a page has many of as markup: of the trial table, a log and the runs list.

A template takes a hundred times as long for a line, and a page has up to 250 of them. Here are no decisions, only
markup around rows of `runs.web.presenting`: every text is escaped here or made by `runs.web.charts` and `lib.markup`.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString, mark_safe

from benchsite.lib.markup import icon, moment, result, unknown
from benchsite.lib.visible_text import visible
from benchsite.lib.words import NOT_RECORDED, NOT_REPORTED
from runs.web.presenting.run_rows import RunRow
from runs.web.presenting.trials import Row, TotalsRow

if TYPE_CHECKING:
    from runs.models import LogLine


def trials(rows: Iterable[tuple[Row, str, SafeString]]) -> SafeString:
    """The body of the trial table: each row with its address and its drawn stages."""
    return mark_safe("\n".join(_trial(row, address, stages) for row, address, stages in rows))


def _trial(row: Row, address: str, stages: SafeString) -> str:
    code = f'<br><span class="code">{escape(row.code)}</span>' if row.code else ""
    badges = "".join(f' <span class="tag attention">{icon("attention")}{escape(badge)}</span>' for badge in row.badges)
    return (
        f'<tr><th scope="row" class="lead-cell"><a class="name" href="{escape(address)}">{escape(row.name)}</a></th>\n'
        f'<td class="side-cell">{result(row.mark)}{code}</td>\n<td class="say">{escape(row.sentence)}{badges}</td>\n'
        f"<td>{stages}</td>\n{_facts(row)}</tr>"
    )


def _facts(row: Row) -> str:
    if not row.ended:
        return f'<td class="num fact quiet" colspan="3">{escape(row.took)}</td>'
    steps = unknown() if row.steps == NOT_RECORDED else escape(f"{row.steps} {row.step_limit}")
    tokens = unknown(NOT_REPORTED) if row.tokens == NOT_REPORTED else escape(row.tokens)
    return _counted(steps, tokens, row.cost, row.took)


def _counted(steps: str, tokens: str, cost: str, took: str) -> str:
    """The cells of what was counted and timed; steps and tokens are markup already."""
    shown = escape(cost) if cost else f"cost {unknown(NOT_REPORTED)}"
    return (
        f'<td class="num fact">{steps}<span class="unit"> steps</span></td>\n<td class="num fact">{tokens}'
        f'<span class="unit"> tokens</span><small><span class="unit">, </span>{shown}</small></td>\n'
        f'<td class="num fact">{escape(took)}</td>'
    )


def totals(row: TotalsRow, stages: SafeString) -> SafeString:
    """The foot of the trial table: sums over the trials, and the run's time outside of them."""
    if not row.begun:
        facts = f'<td class="num fact quiet" colspan="3">{escape(row.took)}</td>'
    elif not row.trials_begun:
        facts = (
            '<td class="num fact quiet" colspan="2">no trial started</td>\n'
            f'<td class="num fact">{escape(row.took)}</td>'
        )
    else:
        steps = escape(row.steps) if row.steps else unknown()
        tokens = escape(row.tokens) if row.tokens else unknown(NOT_REPORTED)
        facts = _counted(steps, tokens, row.cost, row.took)
    return mark_safe(
        f'<tr><th scope="row" class="lead-cell">Total</th>\n<td class="side-cell">{result(row.mark)}</td>\n'
        f'<td class="say">{escape(row.sentence)}</td>\n<td>{stages}</td>\n{facts}</tr>'
    )


def log(lines: Sequence["LogLine"]) -> SafeString:
    """The lines of a log, oldest first."""
    return mark_safe("\n".join(_logged(line) for line in lines))


def _logged(line: "LogLine") -> str:
    cut = ' <span class="cut">[cut at 4,096 characters]</span>' if line.cut else ""
    return (
        f'<li>{moment(line.at, "clock")}<span class="from">{escape(visible(line.source))}</span>'
        f'<span class="line">{escape(visible(line.text))}{cut}</span></li>'
    )


def runs(rows: Iterable[tuple[RunRow, str]]) -> SafeString:
    """The body of the runs list: each row with its address."""
    return mark_safe("\n".join(_run(row, address) for row, address in rows))


def _run(row: RunRow, address: str) -> str:
    run = row.run
    rate = f"<b>{escape(row.rate)}</b> passed" if row.rate else '<span class="quiet">no pass rate</span>'
    return (
        f'<tr><th scope="row" class="lead-cell"><a class="name mono" href="{escape(address)}">{escape(run.short)}</a>'
        f'<small>{escape(run.profile.name)}</small></th>\n<td class="side-cell">{result(row.mark)}</td>\n'
        f'<td>{row.strip}</td>\n<td class="fact">{rate}, <b>{escape(row.evaluated)}</b> graded</td>\n'
        f'<td class="fact">{escape(run.endpoint.model)}<small><span class="unit"> at </span>'
        f"{escape(run.endpoint.name)}</small></td>\n"
        f'<td class="fact">{_cleanup(row)}</td>\n<td class="num fact">{moment(run.created_at, "short")}'
        f'<small><span class="unit">, </span>by {escape(run.created_by_name or "unknown")}</small></td>\n'
        f'<td class="num fact">{escape(row.took)}</td></tr>'
    )


def _cleanup(row: RunRow) -> str:
    cleanup = row.cleanup
    named = f'<span class="unit">cleanup </span>{escape(cleanup.word)}'
    if not cleanup.icon:
        return f'<span class="quiet">{named}</span>'
    return f'<span class="state {cleanup.tone}">{icon(cleanup.icon)}{named}</span>'
