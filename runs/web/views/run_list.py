"""The runs list: filters, each backed by an index, and pages by key, so that page 400 costs what page 1 costs."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import django_filters
from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchsite.lib import keyset
from runs.models import ACTIVE_STATES, TERMINAL_STATES, Endpoint, Profile, Run, RunState
from runs.outcomes.buckets import Verdict
from runs.services import access
from runs.web import table_rows
from runs.web.presenting.cleanups import CLEANUPS
from runs.web.presenting.run_rows import run_row

PAGE = 25
_ANY_KEY = "0" * 32
# What a line of a list is made of; all else of a run, and of what it refers to, only its own page needs.
_OF_A_LINE = (
    "state", "verdict", "cleanup", "cancel_requested_at", "count_requested", "count_evaluated", "count_passed",
    "count_failed", "count_error", "count_cancelled", "created_by_name", "created_at", "claimed_at", "ended_at",
    "profile__name", "endpoint__name", "endpoint__model",
)  # fmt: skip


@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    chosen = RunFilter(request.GET, queryset=listed())
    found = chosen.qs if chosen.is_valid() else listed().none()
    filtered = any(request.GET.get(name) for name in chosen.filters)
    context = {
        "selects": selects(chosen.form),
        "filtered": filtered,
        "page": page_of(request, found),
        "may_start": access.may(request.user, access.START),
    }
    return render(request, "runs/run_list.html", context)


def listed() -> "QuerySet[Run]":
    """Runs as lists show them, newest first."""
    return Run.objects.select_related("profile", "endpoint").only(*_OF_A_LINE)


def page_of(request: HttpRequest, found: "QuerySet[Run]") -> dict[str, Any]:
    """The window that ``?before=`` or ``?after=`` (a run's key) asks for; an unknown key gives the newest."""
    found_window = keyset.window(found, *_anchor(request), PAGE)
    runs = found_window.rows
    address = addresses()
    rows = [(row, address(row.run.key)) for row in map(run_row, runs)]
    return {
        "lines": table_rows.runs(rows),
        "shown": len(rows),
        "total": found.count(),
        "newer": keyset.address(request, after=runs[0].key) if runs and found_window.newer else "",
        "older": keyset.address(request, before=runs[-1].key) if runs and found_window.older else "",
    }


def addresses() -> Callable[[str], str]:
    """What gives a run's key the address of its page: many are written on one page, and Django looks one up slowly."""
    before, after = reverse("run", args=[_ANY_KEY]).split(_ANY_KEY)
    return lambda key: f"{before}{key}{after}"


def _anchor(request: HttpRequest) -> tuple[Run | None, str]:
    for direction in ("before", "after"):
        if key := request.GET.get(direction):
            try:
                pk = UUID(hex=key)
            except ValueError:
                return None, ""
            return Run.objects.only("id", "created_at").filter(pk=pk).first(), direction
    return None, ""


_STATES = {"queued": [RunState.QUEUED], "running": list(ACTIVE_STATES), "ended": list(TERMINAL_STATES)}


def _names(model: type[Profile] | type[Endpoint]) -> list[tuple[str, str]]:
    names = model.objects.order_by("name").values_list("name", flat=True).distinct()
    return [(name, name) for name in names]


def selects(form: forms.Form) -> list[dict[str, Any]]:
    """The filters of a form of choices alone, with what is chosen."""
    found = []
    for name, field in form.fields.items():
        given = form.data.get(name, "")
        choices = field.choices  # type: ignore[attr-defined]
        options = [{"value": str(value), "word": str(word), "chosen": str(value) == given} for value, word in choices]
        found.append({"name": name, "word": str(field.label), "options": options})
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
        choices=[(state.value, state.label.lower()) for state in CLEANUPS],
        empty_label="any",
        label="Cleanup",
    )

    class Meta:
        model = Run
        fields: list[str] = []
        form = forms.Form

    def in_state(self, queryset: "QuerySet[Run]", _name: str, value: str) -> "QuerySet[Run]":
        return queryset.filter(state__in=_STATES[value])
