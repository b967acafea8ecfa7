"""The comparison of 2 to 8 experiments: cases × experiments, and each against the baseline: the test, or why none."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.pages import first_of_window
from benchsite.lib.visible_text import visible
from evidence.experiments.comparing import Table
from evidence.experiments.reading import experiments_or_404
from evidence.models import Experiment
from evidence.statistics.attempts import CaseTally
from evidence.statistics.comparing import Paired, PairedTest, comparable, paired
from evidence.statistics.rates import METHOD_WORDS, Method
from evidence.web.experiments.listing import listed, row_of, rows_of
from evidence.web.experiments.words import case_label, percent, points
from runs.services import access

LEAST, MOST = 2, 8
_CASES = 100
_OFFERED = 50
_DIFFERENCES = 12
_TESTS = {
    PairedTest.MCNEMAR: "McNemar's exact test",
    PairedTest.SIGN_FLIP: "exact test of the signs of the cases' differences",
    PairedTest.PAIRED_T: "Student's paired test over cases",
}
_SHOW = {
    "all": ("All", "These experiments have no case."),
    "differing": ("Differing", "Every case that several of them graded has the same rate in all."),
    "regressed": ("Regressed", "No case is worse than in the baseline."),
    "flaky": ("Flaky", "No case was graded both ways in one experiment."),
    "ungraded": ("Never graded", "Every case that an experiment ran has a grade there."),
}


@require_safe
def compare_page(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    keys = list(dict.fromkeys(key for key in request.GET.getlist("e") if key))
    if not LEAST <= len(keys) <= MOST:
        return _choose(request, keys)
    chosen = experiments_or_404(request.user, keys)
    baseline = next((one for one in chosen if one.key == request.GET.get("baseline")), chosen[0])
    table = Table.of(chosen, baseline)
    show = request.GET.get("show", "all")
    show = show if show in _SHOW else "all"
    sorts = {name: table.chosen(name) for name in _SHOW}
    rows = sorts[show]
    first = first_of_window(request.GET.get("from", ""), size=_CASES, rows=len(rows))
    last = first + _CASES - 1
    query = urlencode([("e", one.key) for one in chosen])
    context = {
        "columns": [_column(one, table, index, query, baseline) for index, one in enumerate(chosen)],
        "baseline": visible(baseline.name),
        "against": [
            _against(one, baseline, table) | {"letter": _letter(index)}
            for index, one in enumerate(chosen)
            if one is not baseline
        ],
        "rows": [_row(case, table) for case in rows[first - 1 : last]],
        "query": f"{query}&baseline={baseline.key}",
        "show": show,
        "tabs": [
            {"key": name, "word": word, "n": len(sorts[name]), "current": name == show}
            for name, (word, _none) in _SHOW.items()
        ],
        "none": _SHOW[show][1],
        "shown": f"{first:,} to {min(last, len(rows)):,} of {len(rows):,}",
        "earlier": first - _CASES if first > 1 else 0,
        "later": last + 1 if last < len(rows) else 0,
    }
    return render(request, "evidence/experiments/compare.html", context)


def _choose(request: HttpRequest, keys: list[str]) -> HttpResponse:
    """The page without two experiments, or with too many: choose them from the newest ones."""
    newest = list(listed()[:_OFFERED])
    known = {one.key for one in newest}
    asked = [key for key in keys if key not in known and key.isprintable()][:_OFFERED]
    rows = rows_of([*listed().filter(key__in=asked), *newest])
    context = {"rows": rows, "ticked": set(keys), "too_many": len(keys) > MOST, "ticks": len(keys), "most": MOST}
    return render(request, "evidence/experiments/compare_choose.html", context)


def _column(one: Experiment, table: Table, index: int, query: str, baseline: Experiment) -> dict[str, Any]:
    return row_of(one, table.tallies[one.pk]) | {
        "letter": _letter(index),
        "baseline": one is baseline,
        "as_baseline": f"?{query}&baseline={one.key}",
    }


def _letter(index: int) -> str:
    return chr(ord("A") + index)


def _row(case: str, table: Table) -> dict[str, Any]:
    before = table.at_baseline(case)
    return {
        "name": case_label(table.names[case]),
        "address": reverse("case", args=[case]),
        "cells": [
            _cell(cell, before, table.experiments[index] is table.baseline) | {"letter": _letter(index)}
            for index, cell in enumerate(table.cells(case))
        ],
    }


def _cell(cell: CaseTally | None, before: CaseTally | None, is_baseline: bool) -> dict[str, Any]:
    """One cell: passed of graded, and the change from the baseline by shape and word."""
    if cell is None:
        return {"said": "", "none": "not run"}
    ungraded = cell.attempts - cell.graded
    beside = f"{ungraded:,} not graded" if ungraded and cell.graded else ""
    if cell.rate is None:
        return {"said": "", "none": "never graded", "beside": words.counted(cell.attempts, "attempt")}
    change = ""
    if not is_baseline and before is not None and before.rate is not None and before.rate != cell.rate:
        change = "better" if cell.rate > before.rate else "worse"
    solved = "hollow-passed" if cell.rate == 1 else "hollow-failed" if cell.rate == 0 else "incomplete"
    return {"said": f"{cell.passed:,} of {cell.graded:,}", "beside": beside, "change": change, "icon": solved}


def _against(one: Experiment, baseline: Experiment, table: Table) -> dict[str, Any]:
    """One experiment against the baseline: difference, interval and test; or every reason why there is no test."""
    old, new = table.tallies[baseline.pk], table.tallies[one.pk]
    found = paired(old, new, comparable(table.setting(baseline), table.setting(one)))
    reasons = [
        replace(reason, what=_named(reason.what, table), left=visible(reason.left), right=visible(reason.right))
        for reason in found.differs
    ]
    return {
        "key": one.key,
        "name": visible(one.name),
        "candidate": visible(one.candidate),
        "counts": (len(found.better), len(found.worse), len(found.same)),
        "pairs": found.pairs,
        "beside": _beside(found),
        "difference": "" if found.difference is None else points(found.difference),
        "interval": _interval(found),
        "how": METHOD_WORDS[found.method],
        "p": _p(found.p_value),
        "test": _TESTS[found.test] if found.test else "",
        "could": _could(found),
        "reasons": reasons[:_DIFFERENCES],
        "more_reasons": max(0, len(reasons) - _DIFFERENCES),
    }


def _named(what: str, table: Table) -> str:
    """``checksum of case 12`` with the case's name for people."""
    start = "checksum of case "
    case = what.removeprefix(start)
    return visible(start + table.names[case] if case != what and case in table.names else what)


def _beside(found: Paired) -> str:
    """Which cases are in no pair."""
    parts = [
        (len(found.ungraded), "never graded in one of the two"),
        (len(found.left_only), "in the baseline alone"),
        (len(found.right_only), "in this one alone"),
    ]
    return "; ".join(f"{words.counted(n, 'case')} {said}" for n, said in parts if n)


def _interval(found: Paired) -> str:
    if found.interval is None or found.method is Method.NONE:
        return ""
    low, high = (points(end).removesuffix(" points") for end in (found.interval.low, found.interval.high))
    return f"{low} to {high} points"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "p under 0.001" if value < 0.001 else f"p = {value:.3f}"


def _could(found: Paired) -> str:
    """What this many cases could show at all."""
    if found.differs or not found.pairs:
        return ""
    said = []
    if found.detectable is not None:
        said.append(f"a true difference of {points(found.detectable).removeprefix('+')} would be found 4 times of 5")
    if found.least_difference is None:
        said.append(f"no result of {words.counted(found.pairs, 'case')} with one attempt each can be significant")
    else:
        least = percent(found.least_difference).removesuffix(" %")
        said.append(f"the smallest difference that could be significant with one attempt each is {least} points")
    return "; ".join(said)
