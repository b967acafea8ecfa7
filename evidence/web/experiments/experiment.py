"""One experiment's page: what it amounts to, its cases and attempts, errors, cost and time, what came in."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.pages import first_of_window
from benchsite.lib.visible_text import visible
from evidence.experiments.reading import Line, experiment_or_404, lines, tally_of
from evidence.models import ArtifactState, Experiment, ExperimentFile
from evidence.statistics.attempts import Tally, solved
from evidence.web.experiments import summary, table_rows
from evidence.web.experiments.words import (
    badge_words,
    case_label,
    money,
    outcome_mark,
    rate_words,
    state_mark,
    trust_sentence,
    trust_words,
)
from evidence.web.listing import FILE_ICONS
from runs.services import access
from runs.web import charts

_CASES = 100
_ATTEMPTS = 50
_FILES = 50
_LISTED = 20
_SHOW = {
    "all": "No case is known of this experiment.",
    "failed": "No graded attempt failed.",
    "flaky": "No case was graded both ways.",
    "never": "Every graded case was solved at least once.",
    "ungraded": "Every case has a grade.",
}
_WORDS = {"all": "All", "failed": "Failed", "flaky": "Flaky", "never": "Never solved", "ungraded": "Never graded"}


@require_safe
def experiment_page(request: HttpRequest, key: str) -> HttpResponse:
    experiment = experiment_or_404(request.user, key)
    found = lines(experiment)
    counted = tally_of(experiment, found)
    cells = summary.sum_cells(experiment, found)
    context = {
        "experiment": experiment,
        "head": head_of(experiment),
        "mark": state_mark(experiment),
        "sentence": _sentence(counted),
        "trust_sentence": trust_sentence(experiment.source),
        "rate": rate_words(counted),
        "cells": cells,
        "share": charts.share(summary.shares(cells), summary.aloud(cells)),
        "of_k": summary.of_k(counted),
        "solved_costs": summary.solved_costs(counted),
        "kinds": _kinds(counted),
        **_cases(request, experiment, found, counted),
        "errors": summary.errors(found)[:_LISTED],
        "more_errors": max(0, len(summary.errors(found)) - _LISTED),
        "distributions": summary.distributions(found),
        "notes": _notes(experiment, found),
        "setting": _setting(experiment),
        **_files(request, experiment),
    }
    return render(request, "evidence/experiments/experiment.html", context)


def head_of(experiment: Experiment) -> dict[str, Any]:
    """Names of an experiment as they may stand on a page."""
    return {
        "name": visible(experiment.name),
        "id": visible(experiment.experiment_id),
        "candidate": visible(experiment.candidate),
        "version": visible(experiment.agent_version),
        "suite": visible(experiment.suite.name),
        "dataset": visible(experiment.dataset),
        "trust": trust_words(experiment),
    }


def _sentence(counted: Tally) -> str:
    """How many trials have a grade, in one sentence; the rates stand beside it."""
    if not counted.graded:
        return "No trial has a grade that counts, so there is no pass rate."
    if counted.graded == counted.requested:
        whole = "The only trial has" if counted.requested == 1 else f"All {counted.requested:,} trials have"
        return f"{whole} a grade that counts."
    lost = counted.requested - counted.graded
    return (
        f"{words.counted(counted.graded, 'trial')} of {counted.requested:,} have a grade that counts; "
        f"{words.spelled(lost)} {'is' if lost == 1 else 'are'} in no rate, and never counted as failed."
    )


def _kinds(counted: Tally) -> list[dict[str, Any]]:
    said = solved(counted)
    return [
        {"word": "Always solved", "n": len(said.always), "means": "every graded attempt passed"},
        {"word": "Flaky", "n": len(said.flaky), "means": "graded both ways"},
        {"word": "Never solved", "n": len(said.never), "means": "every graded attempt failed"},
        {"word": "Never graded", "n": len(said.ungraded), "means": "no attempt has a grade; in no rate"},
    ]


def _cases(request: HttpRequest, experiment: Experiment, found: Sequence[Line], counted: Tally) -> dict[str, Any]:
    """The window of the table that was asked for, and the tabs that narrow it."""
    by_case: dict[int, list[Line]] = defaultdict(list)
    for line in found:
        by_case[line.case].append(line)
    said = solved(counted)
    failed = {str(line.case) for line in found if line.passed is False}
    of = {"failed": failed, "flaky": set(said.flaky), "never": set(said.never), "ungraded": set(said.ungraded)}
    show = request.GET.get("show", "all")
    show = show if show in _SHOW else "all"
    chosen = [case for case in by_case if show == "all" or str(case) in of[show]]
    first = first_of_window(request.GET.get("from", ""), size=_CASES, rows=len(chosen))
    last = first + _CASES - 1
    address = reverse("experiment_trial", args=[experiment.key, 0]).removesuffix("0/")
    rows = [_case_row(case, by_case[case], counted, address) for case in chosen[first - 1 : last]]
    return {
        "rows": table_rows.cases(rows),
        "show": show,
        "tabs": [
            {"key": key, "word": word, "n": len(by_case) if key == "all" else len(of[key]), "current": key == show}
            for key, word in _WORDS.items()
        ],
        "none": _SHOW[show],
        "chosen": len(chosen),
        "shown": f"{first:,} to {min(last, len(chosen)):,} of {len(chosen):,}",
        "earlier": first - _CASES if first > 1 else 0,
        "later": last + 1 if last < len(chosen) else 0,
    }


def _case_row(case: int, attempts: Sequence[Line], counted: Tally, address: str) -> table_rows.CaseRow:
    of = counted.cases[str(case)]
    durations = [line.duration_ms for line in attempts if line.duration_ms is not None]
    costs = [line.cost_usd for line in attempts if line.cost_usd is not None]
    return table_rows.CaseRow(
        name=case_label(attempts[0].case_name),
        address=reverse("case", args=[case]),
        passed=f"{of.passed:,} of {of.graded:,}" if of.graded else "",
        attempts=[
            (f"{address}{line.pk}/", f"Attempt {line.attempt}", outcome_mark(line.outcome))
            for line in attempts[:_ATTEMPTS]
        ],
        more=max(0, len(attempts) - _ATTEMPTS),
        note=_case_note(attempts),
        took=words.duration(sum(durations) / len(durations) / 1000, exact=True) if durations else "",
        cost=money(sum(costs)) if costs else "",
        checksum=next((line.checksum for line in attempts if line.checksum), ""),
    )


def _case_note(attempts: Sequence[Line]) -> str:
    """Why attempts have no grade, most frequent first; and that a task changed between them."""
    void = Counter(line.error_type for line in attempts if line.error_type and line.outcome == "errored")
    said = [f"{visible(name)}{f' ({n} times)' if n > 1 else ''}" for name, n in void.most_common(3)]
    if len({line.checksum for line in attempts if line.checksum}) > 1:
        said.append("the task's checksum differs between attempts")
    return "; ".join(said)


def _notes(experiment: Experiment, found: Sequence[Line]) -> list[dict[str, str]]:
    """Warnings of the import, then the badges of trials with how many have them. None of them changes a result."""
    said = []
    if experiment.error:
        said.append({"text": visible(experiment.error), "where": "Trials without a grade"})
    given = experiment.job_import.warnings if experiment.job_import else []
    for warning in given if isinstance(given, list) else []:
        # As the import stores them: code, where, sentence.
        if isinstance(warning, list) and len(warning) == 3:
            said.append({"text": visible(str(warning[2])), "where": visible(str(warning[1]))})
    badges = Counter(badge for line in found for badge in line.badges if isinstance(badge, str))
    said += [{"text": badge_words(badge), "where": words.counted(n, "trial")} for badge, n in badges.most_common()]
    if experiment.retries:
        times = words.counted(experiment.retries, "retry", "retries")
        said.append({"text": f"The whole job had {times}; only the final attempts are known.", "where": ""})
    return said


def _setting(experiment: Experiment) -> list[tuple[str, str]]:
    """What two experiments have to agree in before a test compares them."""
    said = [
        ("Main reward", visible(experiment.main_reward)),
        ("Pass threshold", f"{experiment.pass_threshold:g}"),
        ("Trust", experiment.trust),
    ]
    given = experiment.overrides if isinstance(experiment.overrides, dict) else {}
    said += [
        (visible(name).replace("_", " ").capitalize(), visible(str(value))) for name, value in sorted(given.items())
    ]
    return said


def _files(request: HttpRequest, experiment: Experiment) -> dict[str, Any]:
    """The register of what came in: totals for all, names for operators, since all of it is private."""
    sorts = list(experiment.files.order_by().values_list("state").annotate(files=Count("pk"), size=Sum("size")))
    private = access.may(request.user, access.READ_PRIVATE)
    rows = experiment.files.filter(trial=None).order_by("path")[:_FILES] if private else []
    return {
        "private": private,
        "files": sum(files for _state, files, _size in sorts),
        "size": words.size(sum(size or 0 for _state, _files, size in sorts)),
        "states": [
            (str(ArtifactState(state).label).lower() if state in ArtifactState else state, files)
            for state, files, _size in sorts
        ],
        "file_rows": [file_row(row) for row in rows],
    }


def file_row(file: ExperimentFile) -> dict[str, Any]:
    """A file of the register as a line of a table."""
    icon = FILE_ICONS.get(file.state, "refused")
    word = {"ok": "kept", "empty": "kept, empty"}.get(file.state, file.get_state_display().lower())
    return {
        "key": file.key if file.readable else "",
        "path": visible(file.path),
        "icon": icon,
        "tone": "" if icon == "held" else "attention",
        "state": f"{word}: {visible(file.note)}" if file.note else word,
        "sha256": file.sha256,
        "size": words.size(file.size) if file.readable else words.NOT_RECORDED,
    }
