"""Roles, permissions, and functions that find an object or raise.

Every view starts with one of ``run_or_404`` and its like; commands and MCP tools call the same functions.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from runs.models import Endpoint, Profile, Run, TaskBundle, Trial, Worker
from runs.services.refusals import BadInput, quoted

type AnyUser = User | AnonymousUser | AbstractBaseUser

VIEW = "runs.view_run"
START = "runs.start_run"
CANCEL = "runs.cancel_run"
CLEAN = "runs.clean_run"
READ_PRIVATE = "runs.read_private"
REVIEW_BUNDLE = "runs.review_bundle"
DECLARE_HOST_LOST = "runs.declare_host_lost"
REMOVE_WORKER = "runs.delete_worker"
REGISTER_ENDPOINT = "runs.register_endpoint"
REVOKE_TOKEN = "runs.change_apitoken"  # anybody's; one's own may be revoked by everybody
VIEW_AUDIT = "runs.view_auditentry"
RETAIN = "runs.retain_run"
# What decides about the parts of a page that update themselves.
SEEN_IN_PANELS = (START, CANCEL, CLEAN, READ_PRIVATE)
MOST_LIKE = 20


class Role(StrEnum):
    """The groups of a site. A person may be in several."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    ADMIN = "admin"


_VIEWER = ("view_run", "view_trial", "view_profile", "view_taskbundle", "view_endpoint", "view_worker")
_OPERATOR = (*_VIEWER, "start_run", "cancel_run", "clean_run", "read_private", "view_ownedresource")
_REVIEWER = (*_VIEWER, "review_bundle", "change_taskbundle")
_ADMIN = (
    *dict.fromkeys((*_OPERATOR, *_REVIEWER)),
    "declare_host_lost", "register_endpoint", "retain_run", "view_auditentry", "view_harnesslock", "view_imagelock",
    "view_preview", "view_endpointtest", "add_endpoint", "change_endpoint", "add_profile", "add_taskbundle",
    "change_worker", "delete_worker", "view_apitoken", "change_apitoken",
)  # fmt: skip
_PEOPLE = ("add_user", "change_user", "view_user", "view_group")  # of Django's own app; narrowed in runs.admin.people
PERMISSIONS_OF_ROLE: dict[Role, tuple[str, ...]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.REVIEWER: _REVIEWER,
    Role.ADMIN: _ADMIN,
}


@dataclass(frozen=True)
class Refused(Exception):
    """A permission is missing. ``permission`` is for logs; the sentence is for people."""

    permission: str
    code: str = "access.refused"

    @property
    def sentence(self) -> str:
        return "Your role does not allow this; ask an administrator for the role that does."


def set_up_roles(*, using: str = "default", **_: Any) -> None:
    """Create the four groups and give each exactly its permissions within this app (after every migrate).

    Administrators also get those with which they manage people; permissions of other apps stay as they are.
    """
    known = Permission.objects.using(using).filter(content_type__app_label="runs")
    by_name = {permission.codename: permission for permission in known}
    if not set(_ADMIN) <= set(by_name):
        return  # an older migration state; the last migrate of all comes here again
    for role, names in PERMISSIONS_OF_ROLE.items():
        group, _created = Group.objects.using(using).get_or_create(name=role.value)
        others = group.permissions.exclude(content_type__app_label="runs")
        group.permissions.set([*others, *(by_name[name] for name in names)])
        if role is Role.ADMIN:
            permissions = Permission.objects.using(using)
            group.permissions.add(*permissions.filter(content_type__app_label="auth", codename__in=_PEOPLE))


def within_roles(user: User) -> bool:
    """Whether all that ``user`` may do comes from the four groups: nobody with more is an administrator's to change."""
    if user.is_superuser or user.user_permissions.exists():
        return False
    return not user.groups.exclude(name__in=[role.value for role in Role]).exists()


def may(user: AnyUser, permission: str) -> bool:
    """Whether ``user`` is active and has ``permission`` (one of the names above)."""
    return bool(user.is_active) and bool(user.has_perm(permission))  # type: ignore[union-attr]


def require(user: AnyUser, permission: str) -> User:
    """The person, or ``PermissionDenied`` (403 in a view) unless ``user`` has ``permission``."""
    if not isinstance(user, User) or not may(user, permission):
        raise PermissionDenied(Refused(permission).sentence)
    return user


# What is shown of the things that a run refers to; the rest, up to a megabyte of documents, is loaded when asked for.
_OF_RELATED = (
    "profile__name", "bundle__name", "bundle__revision", "bundle__reviewed_at", "bundle__reviewed_by_name",
    "endpoint__name", "endpoint__version", "endpoint__model", "endpoint__route", "worker__name",
)  # fmt: skip


@cache
def _runs() -> "QuerySet[Run]":
    """Every run with what its page shows. Most pages ask for a run: the question is put together once."""
    own = [field.name for field in Run._meta.concrete_fields]
    return Run.objects.select_related("profile", "bundle", "endpoint", "worker").only(*own, *_OF_RELATED).order_by()


def run_or_404(user: AnyUser, key: UUID | str, permission: str = VIEW) -> Run:
    """The run with what its page shows; 404 when unknown, 403 when the role does not allow it.

    ``key`` as a text may be the beginning of an id; that of several runs is 404.
    """
    require(user, permission)
    if isinstance(key, UUID):
        return _first_or_404(_runs().filter(pk=key).first(), "run")
    found = _runs_like(key)
    return _first_or_404(found[0] if len(found) == 1 else None, "run")


def runs_like_or_404(user: AnyUser, beginning: str) -> list[Run]:
    """The runs whose ids begin like this, newest first, ``MOST_LIKE`` at most; 404 for none, 403 as for a run."""
    require(user, VIEW)
    found = _runs_like(beginning)
    _first_or_404(found[0] if found else None, "run")
    return found


def _runs_like(beginning: str) -> list[Run]:
    try:
        return list(begins_with(_runs(), beginning).order_by("-created_at", "-id")[:MOST_LIKE])
    except BadInput:
        return []


def trial_or_404(user: AnyUser, key: UUID | str, ordinal: int, permission: str = VIEW) -> Trial:
    """Trial ``ordinal`` (from 1) of run ``key``; 404 and 403 as for the run."""
    run = run_or_404(user, key, permission)
    trial = run.trials.filter(ordinal=ordinal).first()
    if trial is None:
        raise Http404("No such trial.")
    trial.run = run
    return trial


def profile_or_404(user: AnyUser, pk: int) -> Profile:
    require(user, VIEW)
    return _first_or_404(Profile.objects.filter(pk=pk).first(), "profile")


def bundle_or_404(user: AnyUser, name: str, revision: int, permission: str = VIEW) -> TaskBundle:
    require(user, permission)
    return _first_or_404(TaskBundle.objects.filter(name=name, revision=revision).first(), "bundle")


def endpoint_or_404(user: AnyUser, name: str, version: int) -> Endpoint:
    require(user, VIEW)
    return _first_or_404(Endpoint.objects.filter(name=name, version=version).first(), "endpoint")


def worker_or_404(user: AnyUser, name: str, permission: str = VIEW) -> Worker:
    require(user, permission)
    return _first_or_404(Worker.objects.filter(name=name).first(), "worker")


def _first_or_404[T](found: T | None, word: str) -> T:
    if found is None:
        raise Http404(f"No such {word}.")
    return found


SHORTEST = 8


def begins_with(runs: "QuerySet[Run]", key: str) -> "QuerySet[Run]":
    """Those of ``runs`` whose id is ``key`` or begins with it: 8 to 32 hex characters, hyphens and case ignored.

    Raises BadInput ``input.bad_run_id`` for what cannot be the beginning of an id.
    """
    short = key.replace("-", "").lower()
    if not SHORTEST <= len(short) <= 32 or set(short) - set("0123456789abcdef"):
        sentence = f"{quoted(key)} is no run id; give at least its first {SHORTEST} characters, such as 0f3a9c21."
        raise BadInput(sentence, code="input.bad_run_id")
    return runs.filter(pk__gte=short.ljust(32, "0"), pk__lte=short.ljust(32, "f"))


def find_run(key: str) -> Run:
    """The run whose id is ``key`` or begins with it. Raises BadInput, ``input.unknown_run`` for none or several."""
    runs = Run.objects.select_related("profile", "bundle", "endpoint", "worker")
    found = list(begins_with(runs, key)[:2])
    if len(found) != 1:
        what = "There is no such run" if not found else "Several runs begin like this; give more characters"
        raise BadInput(f"{what}: {key}. The newest ones: manage.py status", code="input.unknown_run")
    return found[0]
