"""The navigation beside every page: links, the person's name, and what their roles allow."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from runs.services import access

THEME_COOKIE = "theme"
THEMES = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Item:
    """One link. ``section`` is the first part of the addresses below it."""

    word: str
    icon: str
    href: str
    current: bool


@dataclass(frozen=True, slots=True)
class Navigation:
    groups: list[list[Item]]
    name: str
    may: str


def navigation(request: HttpRequest) -> dict[str, Any]:
    """The context of ``base.html``; looked up only when a page shows it."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {"navigation": SimpleLazyObject(lambda: _navigation(request)), "theme": theme if theme in THEMES else ""}


def _navigation(request: HttpRequest) -> Navigation:
    user = request.user
    groups = [[_item(request, "Overview", "overview", "overview")]]
    if access.may(user, access.VIEW):
        groups[0].append(_item(request, "Runs", "runs", "runs"))
        if access.may(user, access.START):
            groups[0].append(_item(request, "New run", "new", "run_new"))
        groups[0].append(_item(request, "Compare", "compare", "compare"))
        groups[0].append(_item(request, "Experiments", "experiments", "experiments"))
        groups[0].append(_item(request, "Suites", "suites", "suites"))
        others = ("Profiles", "Bundles", "Endpoints", "Workers")
        groups.append([_item(request, word, word.lower(), word.lower()) for word in others])
    if getattr(user, "is_staff", False):
        groups.append([Item("Admin", "admin", reverse("admin:index"), False)])
    return Navigation(groups, user.get_username(), may_words(user))


def _item(request: HttpRequest, word: str, icon: str, name: str) -> Item:
    href, path = reverse(name), request.path
    deeper = {"runs": ("/runs/new/", "/runs/previews/", "/runs/compare/"), "run_new": ()}
    elsewhere = any(path.startswith(other) for other in deeper.get(name, ()))
    current = path == href if name == "overview" else path.startswith(href) and not elsewhere
    current = current or (name == "suites" and path.startswith("/cases/"))
    current = current or (name == "run_new" and path.startswith("/runs/previews/"))
    return Item(word, icon, href, current)


def may_words(user: access.AnyUser) -> str:
    """What a person's roles allow, in a few words."""
    if access.may(user, access.START):
        words = ["start and cancel runs", "read private evidence"]
    elif access.may(user, access.VIEW):
        words = ["see runs and verdicts"]
    else:
        return "has no role yet; ask an administrator for one"
    if access.may(user, access.REVIEW_BUNDLE):
        words.append("review bundles")
    return "may " + ", ".join(words)
