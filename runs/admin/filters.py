"""Filters of the admin's long lists, by what a column can hold: no query looks for the values of a million rows."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from runs.models import GONE, OwnedResource


class _Known(admin.SimpleListFilter):
    """One of the values that a column can hold."""

    values: tuple[str, ...] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(value, value.replace("_", " ")) for value in self.values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() in self.values else queryset


def known(column: str, values: Iterable[str]) -> type[admin.SimpleListFilter]:
    """A filter by ``column``, which holds one of ``values``."""
    own = {"title": column.replace("_", " "), "parameter_name": column, "values": tuple(values)}
    return type(f"Known{column.title().replace('_', '')}", (_Known,), own)


class Left(admin.SimpleListFilter):
    """Whether a resource may still exist: anything but removed or absent."""

    title = "removal"
    parameter_name = "left"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [("yes", "left, or not verified"), ("no", "verified removed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[OwnedResource]) -> QuerySet[OwnedResource]:
        match self.value():
            case "yes":
                return queryset.exclude(outcome__in=GONE)
            case "no":
                return queryset.filter(outcome__in=GONE)
        return queryset
