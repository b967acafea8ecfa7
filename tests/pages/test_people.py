"""Administrators manage people and the four roles, and reach nothing beyond them, whatever they post."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs.models import AuditEntry
from runs.services import access
from tests.pages.conftest import Browser
from tests.pages.factories import PASSWORD, Site, person

LIST = "/admin/auth/user/"
FORGED = {"is_superuser": "on", "is_staff": "on"}


def address(user: User, what: str = "change") -> str:
    return f"{LIST}{user.pk}/{what}/"


def form(user: User, **changes: Any) -> dict[str, Any]:
    """What the change form of ``user`` sends."""
    groups = list(user.groups.values_list("pk", flat=True))
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "last_login_0": "", "last_login_1": ""}
    return {"username": user.username, "is_active": "on", "groups": groups, **joined, **changes}


def group(name: str) -> int:
    return Group.objects.get_or_create(name=name)[0].pk


def again(user: User) -> User:
    return User.objects.get(pk=user.pk)


@pytest.fixture
def root(site: Site) -> User:
    return User.objects.create_superuser("root-1", password=PASSWORD)


@pytest.fixture
def admin(browse: Browser) -> Client:
    return browse("admin")


def test_an_administrator_adds_somebody_and_gives_a_role(site: Site, admin: Client) -> None:
    new = {"username": "new-1", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    assert admin.post(f"{LIST}add/", new).status_code == 302
    made = User.objects.get(username="new-1")
    assert admin.post(address(made), form(made, groups=[group("viewer")])).status_code == 302
    assert access.may(again(made), access.VIEW) and not access.may(again(made), access.START)
    acts = [(entry.actor_name, entry.subject, entry.detail["act"], entry.detail["roles"]) for entry in people_acts()]
    assert acts == [("admin-1", "new-1", "added", []), ("admin-1", "new-1", "changed", ["viewer"])]


def people_acts() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(kind="person").order_by("id"))


def test_a_role_is_taken_away_and_somebody_shut_out(site: Site, admin: Client) -> None:
    sent = form(site.operator, groups=[])
    del sent["is_active"]
    assert admin.post(address(site.operator), sent).status_code == 302
    assert not again(site.operator).is_active
    assert people_acts()[-1].detail == {
        "act": "changed",
        "roles": [],
        "active": False,
        "staff": False,
        "superuser": False,
    }


@pytest.mark.parametrize("who", ["admin", "operator"])
def test_nobody_is_made_a_superuser_by_a_forged_form(site: Site, admin: Client, who: str) -> None:
    somebody = getattr(site, who)
    permissions = list(Permission.objects.values_list("pk", flat=True))
    assert admin.post(address(somebody), form(somebody, user_permissions=permissions, **FORGED)).status_code == 302
    assert not again(somebody).is_superuser
    assert not again(somebody).user_permissions.exists()


def test_nobody_is_added_as_a_superuser(site: Site, admin: Client) -> None:
    new = {"username": "new-1", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    every = [group("everything")]
    assert admin.post(f"{LIST}add/", {**new, **FORGED, "groups": every, "user_permissions": [1]}).status_code == 302
    made = User.objects.get(username="new-1")
    assert (made.is_superuser, made.is_staff) == (False, False)
    assert not made.groups.exists() and not made.user_permissions.exists()


def test_a_group_that_is_no_role_is_refused(site: Site, admin: Client) -> None:
    beyond = group("everything")
    response = admin.post(address(site.operator), form(site.operator, groups=[group("viewer"), beyond]))
    assert response.status_code == 200
    assert "Select a valid choice" in response.content.decode()
    assert not again(site.operator).groups.filter(pk=beyond).exists()


def test_a_superuser_is_neither_changed_nor_given_a_password(site: Site, root: User, admin: Client) -> None:
    before = (root.password, root.username)
    sent = {"usable_password": "true", "password1": "another long password", "password2": "another long password"}
    assert admin.post(address(root), form(root, username="mine")).status_code == 403
    assert admin.post(address(root, "password"), sent).status_code == 403
    assert admin.get(address(root, "password")).status_code == 403
    assert (again(root).password, again(root).username) == before
    assert again(root).is_superuser and people_acts() == []


@pytest.mark.parametrize("how", ["permission", "group"])
def test_somebody_whose_rights_come_from_elsewhere_is_not_changed(site: Site, admin: Client, how: str) -> None:
    other = person("other-1", "viewer")
    if how == "permission":
        other.user_permissions.add(Permission.objects.get(codename="delete_user"))
    else:
        other.groups.add(group("everything"))
    sent = {"usable_password": "true", "password1": "another long password", "password2": "another long password"}
    assert admin.post(address(other), form(other)).status_code == 403
    assert admin.post(address(other, "password"), sent).status_code == 403
    assert again(other).password == other.password


def test_roles_are_read_and_never_changed(site: Site, admin: Client) -> None:
    role = Group.objects.get(name="viewer")
    path = f"/admin/auth/group/{role.pk}/change/"
    assert admin.get(path).status_code == 200
    before = set(role.permissions.values_list("pk", flat=True))
    sent = {"name": "viewer", "permissions": list(Permission.objects.values_list("pk", flat=True))}
    assert admin.post(path, sent).status_code == 403
    assert admin.post("/admin/auth/group/add/", {"name": "more", **sent}).status_code == 403
    assert set(role.permissions.values_list("pk", flat=True)) == before


def test_nobody_is_deleted(site: Site, root: User, admin: Client, client: Client) -> None:
    client.force_login(root)
    for browser in (admin, client):
        assert browser.post(address(site.viewer, "delete"), {"post": "yes"}).status_code == 403
        chosen = {"action": "delete_selected", "_selected_action": [site.viewer.pk], "post": "yes"}
        browser.post(LIST, chosen)
    assert User.objects.filter(pk=site.viewer.pk).exists()


@pytest.mark.parametrize("who", ["viewer", "operator", "reviewer"])
def test_other_roles_see_no_people_even_as_staff(site: Site, browse: Browser, who: str) -> None:
    somebody = getattr(site, who)
    somebody.is_staff = True
    somebody.save()
    client = browse(who)
    assert client.get(LIST).status_code == 403
    assert client.post(address(somebody), form(somebody, groups=[group("admin")])).status_code == 403
    assert not again(somebody).groups.filter(name="admin").exists()


def test_the_form_offers_the_four_roles_and_nothing_beyond(site: Site, admin: Client) -> None:
    group("everything")
    text = admin.get(address(site.operator)).content.decode()
    assert 'name="is_superuser"' not in text and 'name="user_permissions"' not in text
    offered = {int(pk) for pk in re.findall(r'name="groups" value="(\d+)"', text)}
    assert offered == {group(role.value) for role in access.Role}
    assert "<legend>Roles:</legend>" in text


def test_a_superuser_still_gives_everything(site: Site, root: User, client: Client) -> None:
    client.force_login(root)
    assert client.post(address(site.operator), form(site.operator, **FORGED)).status_code == 302
    assert again(site.operator).is_superuser
    assert people_acts()[-1].detail["superuser"] is True


def test_the_list_of_people_takes_a_fixed_number_of_queries(site: Site, admin: Client) -> None:
    admin.get(LIST)  # the admin keeps the content types that it once looked up
    with CaptureQueriesContext(connection) as few:
        admin.get(LIST)
    for number in range(20):
        person(f"more-{number}", "viewer", "operator")
    with CaptureQueriesContext(connection) as many:
        assert "more-19" in admin.get(LIST).content.decode()
    assert len(many) == len(few)
