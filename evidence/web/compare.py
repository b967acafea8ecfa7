"""The pages that compare two runs; only graded trials count as regressed or improved."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.text import capfirst, get_text_list
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.pages import first_of_window
from benchsite.lib.visible_text import visible
from evidence.web.comparison import Attempt, Change, Comparison, Pair, compare
from runs.documents.specs import spec_difference
from runs.models import Run
from runs.outcomes.codes import BADGES, CODES
from runs.services import access
from runs.web.presenting import status_marks
from runs.web.presenting.run_rows import RunRow, run_row

_CHOICES = 50
_SPEC_ROWS = 60
_ROWS = 200
_WORDS = {
    Change.REGRESSED: ("worse", "failed", "Regressed"),
    Change.IMPROVED: ("better", "passed", "Improved"),
    Change.NOT_GRADED: ("attention", "attention", "Not graded"),
    Change.NOT_COMPARABLE: ("apart", "cancelled", "Not comparable"),
    Change.SAME: ("same", "", "Same"),
}
_NONE = {
    "changed": "No task changed from the baseline to the candidate.",
    Change.REGRESSED: "No task regressed.",
    Change.IMPROVED: "No task improved.",
    Change.NOT_GRADED: "Every task that can be compared was graded in both.",
    Change.NOT_COMPARABLE: "Every task can be compared.",
    "all": "Neither run has a task.",
}
_OF_ANSWERS = ("answer_cut", "model_refused", "context_window_exceeded")
_MARK_OF_BUCKET = status_marks.RESULTS | {"": status_marks.RESULTS["queued"]}


@require_safe
def compare_page(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    baseline, candidate = (_run(request, name) for name in ("baseline", "candidate"))
    if baseline is None or candidate is None:
        return _choose(request, baseline, candidate)
    found = compare(_attempts(baseline), _attempts(candidate))
    show = request.GET.get("show", "changed")
    chosen = found.chosen(show)
    old, new = stored_object(baseline.spec), stored_object(candidate.spec)
    differences, everything = spec_difference(old, new), spec_difference({}, {**old, **new})
    fields = max(len(everything), len(differences))  # in either of them
    first = first_of_window(request.GET.get("from", ""), size=_ROWS, rows=len(chosen))
    last = first + _ROWS - 1
    counts = found.counts
    changed = sum(n for change, n in counts.items() if change is not Change.SAME)
    named = [(change.value, _WORDS[change][2], _WORDS[change][0], counts[change]) for change in list(Change)[:-1]]
    tabs = [("changed", "Changed", "", changed), *named, ("all", "All", "", len(found.pairs))]
    keys = {key for key, *_rest in tabs}
    current = show if show in keys else "changed"
    context = {
        "baseline": run_row(baseline),
        "candidate": run_row(candidate),
        "rows": [_row(pair) for pair in chosen[first - 1 : last]],
        "shown": f"{first:,} to {min(last, len(chosen)):,} of {len(chosen):,}",
        "earlier": first - _ROWS if first > 1 else 0,
        "later": last + 1 if last < len(chosen) else 0,
        "show": show,
        "tabs": [
            {"key": key, "word": word, "icon": icon, "n": n, "current": key == current} for key, word, icon, n in tabs
        ],
        "none": _NONE.get(show, _NONE["changed"]),
        "hidden": len(found.pairs) - len(chosen),
        "total": len(found.pairs),
        "both": _both(found),
        "differences": differences[:_SPEC_ROWS],
        "differing": len(differences),
        "undrawn": max(0, len(differences) - _SPEC_ROWS),
        "fields": fields,
        "query": f"baseline={baseline.key}&candidate={candidate.key}",
    }
    return render(request, "evidence/compare.html", context)


def _run(request: HttpRequest, name: str) -> Run | None:
    key = request.GET.get(name, "")
    return access.run_or_404(request.user, key) if key else None


def _choose(request: HttpRequest, baseline: Run | None, candidate: Run | None) -> HttpResponse:
    """The page without two runs: choose them from the newest ones."""
    newest = list(Run.objects.select_related("profile", "endpoint").defer("spec")[:_CHOICES])
    rows: list[RunRow] = [run_row(run) for run in newest]
    for chosen in (baseline, candidate):
        if chosen is not None and chosen.key not in {row.run.key for row in rows}:
            rows.append(run_row(chosen))
    # What is offered first has ended: a run that is still open has little to be compared.
    offered = [run.key for run in sorted(newest, key=lambda run: run.verdict is None)]
    right = candidate.key if candidate else _first(offered, baseline.key if baseline else "")
    context = {"rows": rows, "candidate": right, "baseline": baseline.key if baseline else _first(offered, right)}
    return render(request, "evidence/compare_choose.html", context)


def _first(keys: list[str], taken: str) -> str:
    """The first of them that is not the other side already."""
    return next((key for key in keys if key != taken), "")


def _attempts(run: Run) -> list[Attempt]:
    columns = ("task_name", "task_checksum", "ordinal", "bucket", "failure_code", "steps", "timings", "badges")
    return [
        Attempt(task, checksum, ordinal, bucket or "", code, steps, _seconds(timings), tuple(badges))
        for task, checksum, ordinal, bucket, code, steps, timings, badges in run.trials.values_list(*columns)
    ]


def _seconds(timings: Any) -> float | None:
    value = timings.get("total_s") if isinstance(timings, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _row(pair: Pair) -> dict[str, Any]:
    icon, tone, word = _WORDS[pair.change]
    old, new = pair.baseline, pair.candidate
    blamed = new if new is not None and not new.evaluated else old
    return {
        "task": visible(pair.task),
        "icon": icon,
        "tone": tone,
        "word": word,
        "baseline": _MARK_OF_BUCKET[old.bucket] if old else None,
        "candidate": _MARK_OF_BUCKET[new.bucket] if new else None,
        "baseline_ordinal": old.ordinal if old else 0,
        "candidate_ordinal": new.ordinal if new else 0,
        "what": " ".join([_what(pair), *_noted(pair)]),
        "code": blamed.code if pair.change is Change.NOT_GRADED and blamed else "",
        "steps": _arrow(*(words.number(side.steps) if side else "" for side in (old, new))),
        "time": _arrow(*(words.duration(side.seconds) if side else "" for side in (old, new))),
    }


def _arrow(old: str, new: str) -> str:
    return " → ".join(part for part in (old, new) if part)


def _what(pair: Pair) -> str:
    old, new = pair.baseline, pair.candidate
    if old is None or new is None:
        return f"Only the {'candidate' if old is None else 'baseline'} has this task."
    match pair.change:
        case Change.NOT_COMPARABLE:
            return "Different task version: the checksums differ, so the results are not compared."
        case Change.NOT_GRADED:
            sides = [name for name, side in (("baseline", old), ("candidate", new)) if not side.evaluated]
            titles = [_title(side) for side in (old, new) if not side.evaluated]
            verb = "was" if len(sides) == 1 else "were"
            return f"{capfirst(get_text_list(sides, 'and'))} {verb} not graded: {'; '.join(dict.fromkeys(titles))}."
        case Change.REGRESSED:
            return "Graded with reward 1 before, 0 now."
        case Change.IMPROVED:
            return "Graded with reward 0 before, 1 now."
    return "The same result in both."


def _noted(pair: Pair) -> list[str]:
    """What was noted of the answers in either run, which may be why the results differ."""
    sides = [
        (name, set(side.badges)) for name, side in (("baseline", pair.baseline), ("candidate", pair.candidate)) if side
    ]
    return [
        f"{capfirst(name)}: {BADGES[badge][0].lower()}{BADGES[badge][1:]}"
        for name, badges in sides
        for badge in _OF_ANSWERS
        if badge in badges
    ]


def _title(attempt: Attempt) -> str:
    if not attempt.bucket:
        return "it has not ended"
    known = CODES.get(attempt.code)
    return known.title.lower() if known else attempt.bucket


def _both(found: Comparison) -> str:
    """Rates over the tasks that were graded in both runs, or nothing."""
    before, compared = found.rate("baseline")
    after, _compared = found.rate("candidate")
    if not compared:
        return ""
    noun = words.counted(compared, "task")
    return f"Of {noun} graded in both, {before} passed in the baseline and {after} in the candidate."
