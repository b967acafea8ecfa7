"""Suites with their revisions and cases, and the history of one case over all experiments."""

from collections import Counter, defaultdict
from typing import Any

from django.db.models import Count, Max, OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import get_text_list
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.pages import first_of_window
from benchsite.lib.visible_text import visible
from evidence.experiments.reading import case_or_404, grade, suite_or_404
from evidence.models import Case, Experiment, ExperimentTrial, RevisionCase, Suite, SuiteRevision
from evidence.web.experiments import table_rows
from evidence.web.experiments.words import case_label, outcome_mark, trust_words
from runs.services import access

_SUITES = 100
_CASES = 100
_REVISIONS = 10
_EXPERIMENTS = 50
_ATTEMPTS = 50
_NAMED = 5


@require_safe
def suite_list(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    every = Suite.objects.count()
    first = first_of_window(request.GET.get("from", ""), size=_SUITES, rows=every)
    revisions = SuiteRevision.objects.filter(suite=OuterRef("pk")).order_by("-number")
    experiments = Experiment.objects.filter(suite=OuterRef("pk")).order_by().values("suite")
    found = Suite.objects.annotate(
        revision=Subquery(revisions.values("number")[:1]),
        of_cases=Subquery(
            Case.objects.filter(suite=OuterRef("pk")).order_by().values("suite").annotate(n=Count("pk")).values("n")
        ),
        of_experiments=Subquery(experiments.annotate(n=Count("pk")).values("n")),
        newest=Subquery(experiments.annotate(at=Max("created_at")).values("at")),
    ).order_by("name", "pk")[first - 1 : first - 1 + _SUITES]
    rows = [
        {
            "pk": suite.pk,
            "name": visible(suite.name),
            "id": visible(suite.suite_id),
            "revision": suite.revision or 0,
            "cases": suite.of_cases or 0,
            "experiments": suite.of_experiments or 0,
            "newest": suite.newest,
        }
        for suite in found
    ]
    context = {"rows": rows, "total": every, **_pager(first, _SUITES, every)}
    return render(request, "evidence/experiments/suites.html", context)


def _pager(first: int, size: int, rows: int) -> dict[str, Any]:
    last = first + size - 1
    return {
        "shown": f"{first:,} to {min(last, rows):,} of {rows:,}",
        "earlier": first - size if first > 1 else 0,
        "later": last + 1 if last < rows else 0,
    }


@require_safe
def suite_page(request: HttpRequest, pk: int) -> HttpResponse:
    suite = suite_or_404(request.user, pk)
    newest = list(suite.revisions.order_by("-number")[: _REVISIONS + 1])
    shown = newest[:_REVISIONS]
    every = suite.cases.count()
    first = first_of_window(request.GET.get("from", ""), size=_CASES, rows=every)
    current = newest[0] if newest else None
    context = {
        "suite": suite,
        "name": visible(suite.name),
        "suite_id": visible(suite.suite_id),
        "revisions": _revisions(shown, newest),
        "more_revisions": len(newest) > _REVISIONS,
        "most_revisions": _REVISIONS,
        "cases": _suite_cases(suite, current, first),
        "current": current,
        "total": every,
        "experiments": suite.experiments.count(),
        **_pager(first, _CASES, every),
    }
    return render(request, "evidence/experiments/suite.html", context)


def _revisions(shown: list[SuiteRevision], newest: list[SuiteRevision]) -> list[dict[str, Any]]:
    """Each revision with what it changed of the one before; cases of all of them are read in one query."""
    held: dict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
    names: dict[int, str] = {}
    columns = ("revision_id", "case_id", "case__name", "checksum", "content_sha256")
    for revision, case, name, checksum, content in (
        RevisionCase.objects.filter(revision__in=newest).order_by("case__name", "case_id").values_list(*columns)
    ):
        held[revision][case], names[case] = (checksum, content), case_label(name)
    rows = []
    for index, revision in enumerate(shown):
        before = newest[index + 1] if index + 1 < len(newest) else None
        now, then = held[revision.pk], held[before.pk] if before else {}
        said = [
            _change("added", [names[case] for case in now if case not in then]) if before else "",
            _change("changed", [names[case] for case in now if case in then and now[case] != then[case]]),
            _change("removed", [names[case] for case in then if case not in now]),
        ]
        rows.append(
            {
                "number": revision.number,
                "mode": revision.mode,
                "cases": revision.case_count,
                "checkpoint": visible(revision.checkpoint_id),
                "at": revision.created_at,
                "by": visible(revision.created_by_name) or "unknown",
                "changes": [one for one in said if one],
                "first": before is None,
            }
        )
    return rows


def _change(word: str, cases: list[str]) -> str:
    if not cases:
        return ""
    named = get_text_list([*cases[:_NAMED], *([f"{len(cases) - _NAMED:,} more"] if len(cases) > _NAMED else [])], "and")
    return f"{words.counted(len(cases), 'case')} {word}: {named}"


def _suite_cases(suite: Suite, current: SuiteRevision | None, first: int) -> list[dict[str, Any]]:
    """A window of the suite's cases, each with its digest in the newest revision."""
    found = list(suite.cases.order_by("name", "pk")[first - 1 : first - 1 + _CASES])
    held = RevisionCase.objects.filter(revision=current, case__in=found) if current else RevisionCase.objects.none()
    checksums = dict(held.values_list("case_id", "checksum"))
    counted = ExperimentTrial.objects.filter(case__in=found).order_by().values_list("case_id")
    experiments = dict(counted.annotate(n=Count("experiment_id", distinct=True)))
    return [
        {
            "pk": case.pk,
            "name": case_label(case.name),
            "source": visible(case.source),
            "checksum": checksums.get(case.pk, ""),
            "in_revision": case.pk in checksums,
            "experiments": experiments.get(case.pk, 0),
        }
        for case in found
    ]


@require_safe
def case_page(request: HttpRequest, pk: int) -> HttpResponse:
    case = case_or_404(request.user, pk)
    of_case = Experiment.objects.filter(pk__in=case.trials.order_by().values("experiment"))
    every = of_case.count()
    first = first_of_window(request.GET.get("from", ""), size=_EXPERIMENTS, rows=every)
    experiments = list(
        of_case.select_related("revision")
        .defer("details", "overrides", "error")
        .order_by("-created_at", "-pk")[first - 1 : first - 1 + _EXPERIMENTS]
    )
    context = {
        "case": case,
        "name": case_label(case.name),
        "suite": visible(case.suite.name),
        "source": visible(case.source),
        "case_id": visible(case.case_id),
        "totals": _totals(case),
        "revisions": _checksums(case),
        "rows": _history(case, experiments),
        "total": every,
        **_pager(first, _EXPERIMENTS, every),
    }
    return render(request, "evidence/experiments/case.html", context)


def _totals(case: Case) -> list[dict[str, str]]:
    """Passed of graded over all experiments, for each trust by itself: they are never added up."""
    counted: dict[str, Counter[bool | None]] = defaultdict(Counter)
    rows = case.trials.order_by().values_list("trust", "reported_outcome", "observed_outcome").annotate(n=Count("pk"))
    for trust, reported, observed, n in rows:
        counted[trust][grade(reported or observed)] += n
    return [
        {
            "trust": trust,
            "passed": f"{of[True]:,} of {of[True] + of[False]:,}" if of[True] + of[False] else "",
            "graded": f"{of[True] + of[False]:,} of {words.counted(of.total(), 'attempt')} graded",
        }
        for trust, of in sorted(counted.items())
    ]


def _checksums(case: Case) -> list[dict[str, Any]]:
    """The content of the case by revision of its suite, newest first."""
    rows = case.revisions.select_related("revision").order_by("-revision__number")[:_REVISIONS]
    return [{"number": row.revision.number, "checksum": row.checksum, "at": row.revision.created_at} for row in rows]


def _history(case: Case, experiments: list[Experiment]) -> list[dict[str, Any]]:
    """What became of the case in each experiment, newest first, and where its content changed in between."""
    trials: dict[int, list[ExperimentTrial]] = defaultdict(list)
    columns = ("experiment_id", "attempt", "reported_outcome", "observed_outcome", "checksum", "error_type")
    for trial in case.trials.filter(experiment__in=experiments).only(*columns).order_by("attempt", "pk"):
        trials[trial.experiment_id].append(trial)
    rows: list[dict[str, Any]] = []
    for one in experiments:
        of = trials[one.pk]
        grades = Counter(grade(trial.outcome) for trial in of)
        checksum = next((trial.checksum for trial in of if trial.checksum), "")
        rows.append(
            {
                "key": one.key,
                "name": visible(one.name),
                "candidate": visible(one.candidate),
                "trust": trust_words(one),
                "at": one.created_at,
                "revision": one.revision.number if one.revision else 0,
                "attempts": table_rows.attempts(
                    (
                        reverse("experiment_trial", args=[one.key, trial.pk]),
                        f"Attempt {trial.attempt}",
                        outcome_mark(trial.outcome),
                    )
                    for trial in of[:_ATTEMPTS]
                ),
                "more": max(0, len(of) - _ATTEMPTS),
                "passed": f"{grades[True]:,} of {grades[True] + grades[False]:,}"
                if grades[True] + grades[False]
                else "",
                "graded": f"{grades[True] + grades[False]:,} of {len(of):,} graded",
                "checksum": checksum,
                "changed": bool(rows and checksum != rows[-1]["checksum"]),
            }
        )
    return rows
