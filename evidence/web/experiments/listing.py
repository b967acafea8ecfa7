"""The experiments list: filters and pages by key; each rate stands beside its trust and what was graded of it."""

import hashlib
from typing import Any

import django_filters
from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchsite.lib import keyset
from benchsite.lib.visible_text import visible
from evidence.experiments.reading import tallies
from evidence.imports.outcomes import Source
from evidence.models import Experiment, Suite
from evidence.statistics.attempts import Tally
from evidence.web.experiments.words import SOURCES, rate_words, state_mark, trust_words
from runs.services import access
from runs.web.views.run_list import selects

PAGE = 25
_STATES = [("open", "open"), ("completed", "finalized"), ("failed", "finalized with errors")]


@require_safe
def experiment_list(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    chosen = ExperimentFilter(request.GET, queryset=listed())
    found = chosen.qs if chosen.is_valid() else listed().none()
    context = {
        "selects": selects(chosen.form),
        "filtered": any(request.GET.get(name) for name in chosen.filters),
        "page": page_of(request, found),
    }
    return render(request, "evidence/experiments/list.html", context)


def listed() -> "QuerySet[Experiment]":
    """Experiments as lists show them, newest first."""
    return Experiment.objects.select_related("suite").defer("details", "overrides", "error")


def page_of(request: HttpRequest, found: "QuerySet[Experiment]") -> dict[str, Any]:
    """The window that ``?before=`` or ``?after=`` (an experiment's key) asks for; an unknown key gives the newest."""
    anchor, direction = None, ""
    for name in ("before", "after"):
        key = request.GET.get(name, "")
        if key and key.isprintable():
            anchor, direction = Experiment.objects.only("pk", "created_at").filter(key=key).first(), name
            break
    shown = keyset.window(found, anchor, direction, PAGE)
    rows = shown.rows
    return {
        "rows": rows_of(rows),
        "total": found.count(),
        "newer": keyset.address(request, after=rows[0].key) if rows and shown.newer else "",
        "older": keyset.address(request, before=rows[-1].key) if rows and shown.older else "",
    }


def rows_of(experiments: list[Experiment]) -> list[dict[str, Any]]:
    """Lines of a list; one query counts the trials of all of them."""
    counted = tallies(experiments)
    return [row_of(one, counted[one.pk]) for one in experiments]


def row_of(one: Experiment, counted: Tally) -> dict[str, Any]:
    return {
        "key": one.key,
        "name": visible(one.name),
        "candidate": visible(one.candidate),
        "version": visible(one.agent_version),
        "suite": visible(one.suite.name),
        "suite_pk": one.suite_id,
        "trust": trust_words(one),
        "mark": state_mark(one),
        "rate": rate_words(counted),
        "at": one.created_at,
        "by": visible(one.created_by_name) or "unknown",
    }


def candidate_digest(agent: str, provider: str, model: str) -> str:
    """A short name of a candidate for addresses; names themselves may hold anything."""
    parts = "\x1f".join((agent, provider, model))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _candidates() -> dict[str, tuple[str, str, str]]:
    columns = ("agent_name", "model_provider", "model_name")
    return {
        candidate_digest(*row): row for row in Experiment.objects.order_by(*columns).values_list(*columns).distinct()
    }


def _candidate_choices() -> list[tuple[str, str]]:
    return [
        (digest, visible(Experiment(agent_name=agent, model_provider=provider, model_name=model).candidate))
        for digest, (agent, provider, model) in _candidates().items()
    ]


def _suite_choices() -> list[tuple[str, str]]:
    return [(str(pk), visible(name)) for pk, name in Suite.objects.order_by("name", "pk").values_list("pk", "name")]


class ExperimentFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Suite, candidate, source, state; all optional, all combined."""

    suite = django_filters.ChoiceFilter(field_name="suite_id", choices=_suite_choices, empty_label="any", label="Suite")
    candidate = django_filters.ChoiceFilter(
        choices=_candidate_choices, method="of_candidate", empty_label="any", label="Candidate"
    )
    source = django_filters.ChoiceFilter(
        choices=[(source.value, SOURCES[source]) for source in Source], empty_label="any", label="Source"
    )
    state = django_filters.ChoiceFilter(choices=_STATES, method="in_state", empty_label="any", label="State")

    class Meta:
        model = Experiment
        fields: list[str] = []
        form = forms.Form

    def of_candidate(self, queryset: "QuerySet[Experiment]", _name: str, value: str) -> "QuerySet[Experiment]":
        agent, provider, model = _candidates()[value]
        return queryset.filter(agent_name=agent, model_provider=provider, model_name=model)

    def in_state(self, queryset: "QuerySet[Experiment]", _name: str, value: str) -> "QuerySet[Experiment]":
        return queryset.filter(state="open") if value == "open" else queryset.filter(result=value)
