"""The site's own look-up of permissions says exactly what Django's would."""

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from pytest_django import DjangoAssertNumQueries

from benchsite.accounts.backend import Backend
from runs.services.access import CLEAN, START, VIEW, Role, may

pytestmark = pytest.mark.django_db


def person(*roles: Role) -> User:
    user = User.objects.create_user("somebody", password="x")
    user.groups.set(Group.objects.filter(name__in=[role.value for role in roles]))
    return user


def as_django_says(user: User) -> set[str]:
    return set(ModelBackend().get_all_permissions(User.objects.get(pk=user.pk)))


@pytest.mark.parametrize("roles", [(), (Role.VIEWER,), (Role.OPERATOR, Role.REVIEWER), tuple(Role)])
def test_a_persons_permissions_are_those_that_django_finds(roles: tuple[Role, ...]) -> None:
    user = person(*roles)
    assert Backend().get_all_permissions(user) == as_django_says(user)
    assert bool(as_django_says(user)) is bool(roles)


def test_a_permission_of_the_persons_own_counts_beside_those_of_their_groups() -> None:
    user = person(Role.VIEWER)
    user.user_permissions.add(Permission.objects.get(codename="start_run"))
    fresh = User.objects.get(pk=user.pk)
    assert may(fresh, START) and may(fresh, VIEW) and not may(fresh, CLEAN)
    assert Backend().get_all_permissions(fresh) == as_django_says(user)


def test_nobody_gets_what_another_was_given() -> None:
    person(*Role)
    other = User.objects.create_user("other", password="x")
    assert Backend().get_all_permissions(other) == set()


@pytest.mark.parametrize("active", [True, False])
def test_a_superuser_may_everything_unless_they_were_switched_off(active: bool) -> None:
    user = User.objects.create_user("root", password="x", is_superuser=True, is_active=active)
    assert Backend().get_all_permissions(user) == as_django_says(user)
    assert bool(Backend().get_all_permissions(user)) is active


def test_somebody_switched_off_or_unknown_may_nothing() -> None:
    user = person(*Role)
    user.is_active = False
    assert Backend().get_all_permissions(user) == Backend().get_all_permissions(AnonymousUser()) == set()


def test_permissions_cost_one_query_and_are_looked_up_afresh_for_each_request(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    user = person(Role.OPERATOR)
    with django_assert_num_queries(1):
        assert user.has_perm(START) and not user.has_perm("runs.review_bundle")
    user.groups.clear()
    assert not User.objects.get(pk=user.pk).has_perm(START)
