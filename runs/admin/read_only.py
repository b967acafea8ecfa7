"""Base of the admin pages of records that nobody edits by hand, and filters of their long lists.

A filter goes by what a column can hold: no query looks for the values of a million rows.
"""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst

from runs.models import GONE, OwnedResource
from runs.services import access


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Nobody edits or deletes a row by hand; the list stays fast on a million of them."""

    show_full_result_count = False
    list_per_page = 50

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    # Who is offered an act on what is selected; the functions behind it ask again.
    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.CANCEL)

    def has_clean_permission(self, request: HttpRequest) -> bool:
        return access.may(request.user, access.CLEAN)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """A list is not filtered by what its reader is not shown: which rows remain would tell it, bit by bit."""
        hidden = self.get_exclude(request) or ()
        return lookup.partition("__")[0] not in hidden and super().lookup_allowed(lookup, value, request)


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


class LeftoverFilter(admin.SimpleListFilter):
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
