"""Filters of the runs list, each backed by an index."""

from dataclasses import dataclass

import django_filters
from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet

from runs.models import ACTIVE_STATES, TERMINAL_STATES, Endpoint, Profile, Run, RunState
from runs.outcomes.buckets import Verdict

_STATES = {
    "queued": [RunState.QUEUED],
    "running": list(ACTIVE_STATES),
    "ended": list(TERMINAL_STATES),
}


def _names(model: type[Profile] | type[Endpoint]) -> list[tuple[str, str]]:
    names = model.objects.order_by("name").values_list("name", flat=True).distinct()
    return [(name, name) for name in names]


@dataclass(frozen=True, slots=True)
class Option:
    value: str
    word: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Select:
    """One filter as a page shows it. Django's own widgets take a template for every option: a third of the page."""

    name: str
    word: str
    options: list[Option]


def selects(form: forms.Form) -> list[Select]:
    """The filters of a form of choices alone, with what is chosen."""
    found = []
    for name, field in form.fields.items():
        given = form.data.get(name, "")
        options = [Option(str(value), str(word), str(value) == given) for value, word in field.choices]  # type: ignore[attr-defined]
        found.append(Select(name, str(field.label), options))
    return found


class RunFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Verdict, state, profile, endpoint, who; all optional, all combined."""

    verdict = django_filters.ChoiceFilter(choices=Verdict.choices(), empty_label="any", label="Verdict")
    state = django_filters.ChoiceFilter(
        choices=[("queued", "queued"), ("running", "running"), ("ended", "ended")],
        method="in_state",
        empty_label="any",
        label="State",
    )
    profile = django_filters.ChoiceFilter(
        field_name="profile__name", choices=lambda: _names(Profile), empty_label="any", label="Profile"
    )
    endpoint = django_filters.ChoiceFilter(
        field_name="endpoint__name", choices=lambda: _names(Endpoint), empty_label="any", label="Endpoint"
    )
    who = django_filters.ModelChoiceFilter(
        field_name="created_by",
        queryset=User.objects.only("username").order_by("username"),
        to_field_name="username",
        empty_label="anyone",
        label="Started by",
    )
    cleanup = django_filters.ChoiceFilter(
        choices=[
            ("clean", "clean"),
            ("failed", "failed"),
            ("declared", "declared resolved"),
            ("pending", "pending"),
        ],
        empty_label="any",
        label="Cleanup",
    )

    class Meta:
        model = Run
        fields: list[str] = []
        form = forms.Form

    def in_state(self, queryset: "QuerySet[Run]", _name: str, value: str) -> "QuerySet[Run]":
        return queryset.filter(state__in=_STATES[value])
