"""Admin of people and their roles: Django's user admin, for administrators who are not superusers.

An administrator gives and takes the four roles and nothing beyond them: a superuser, or anyone whose rights come
from elsewhere, is a superuser's to change. Every change leaves an audit entry.
"""

from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from runs.admin.read_only import ReadOnly
from runs.models import AuditKind
from runs.services import access, audit

_ROLES_HELP = "What this person may do on the site; roles add up. Access to the admin also needs the staff status."
_BEYOND = ("is_superuser", "user_permissions")


class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    list_display = ("username", "first_name", "last_name", "roles", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff", "groups")
    show_full_result_count = False
    list_per_page = 50
    filter_horizontal = ("user_permissions",)
    readonly_fields = ("last_login", "date_joined")  # the site writes them

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    @admin.display(description="roles")
    def roles(self, person: User) -> SafeString | str:
        return format_html_join(", ", "{}", [(group.name,) for group in person.groups.all()]) or "none"

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Without what reaches beyond the roles, unless a superuser looks."""
        found = super().get_fieldsets(request, obj)
        if _superuser(request):
            return found
        return [
            (title, {**options, "fields": tuple(name for name in options["fields"] if name not in _BEYOND)})
            for title, options in found
        ]

    def formfield_for_manytomany(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """A group that is no role cannot be chosen, nor posted."""
        if db_field.name == "groups":
            kwargs |= {"widget": forms.CheckboxSelectMultiple, "label": "Roles", "help_text": _ROLES_HELP}
            if not _superuser(request):
                kwargs["queryset"] = Group.objects.filter(name__in=[role.value for role in access.Role])
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Also asked before a password is set."""
        reachable = obj is None or _superuser(request) or access.within_roles(obj)
        return reachable and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Nobody is deleted: their runs and acts name them. Take "active" away instead."""
        return False

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        _audit(request, obj, "added")
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        _audit(request, obj, "changed")
        return super().log_change(request, obj, message)


class RoleAdmin(ReadOnly):
    """What each role may do. Roles are set up again by every migrate, so nobody edits them here."""

    list_display = ("name", "people")
    ordering = ("name",)

    @admin.display(description="people")
    def people(self, group: Group) -> int:
        return group.user_set.filter(is_active=True).count()


def _superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _audit(request: HttpRequest, person: Model, act: str) -> None:
    if not isinstance(person, User):
        raise TypeError(type(person))
    detail = {
        "act": act,
        "roles": sorted(person.groups.values_list("name", flat=True)),
        "active": person.is_active,
        "staff": person.is_staff,
        "superuser": person.is_superuser,
    }
    audit.record(AuditKind.PERSON, user=request.user, subject=person.get_username(), detail=detail)


apps.get_app_config("auth").verbose_name = "People and roles"
admin.site.unregister([User, Group])
admin.site.register(User, PersonAdmin)
admin.site.register(Group, RoleAdmin)
