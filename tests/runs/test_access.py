"""Who may see and do what: roles, permissions, and the functions that return the object or refuse."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.http import Http404

from runs.models.triggers import GUARDS, install
from runs.services import access
from runs.services.access import PERMISSIONS_OF_ROLE, Role
from tests.runs.rows import person, run_row

pytestmark = pytest.mark.django_db

ALLOWED = {
    access.VIEW: {Role.VIEWER, Role.OPERATOR, Role.REVIEWER, Role.ADMIN},
    access.START: {Role.OPERATOR, Role.ADMIN},
    access.CANCEL: {Role.OPERATOR, Role.ADMIN},
    access.CLEAN: {Role.OPERATOR, Role.ADMIN},
    access.READ_PRIVATE: {Role.OPERATOR, Role.ADMIN},
    access.REVIEW_BUNDLE: {Role.REVIEWER, Role.ADMIN},
    access.DECLARE_HOST_LOST: {Role.ADMIN},
    access.REMOVE_WORKER: {Role.ADMIN},
    access.REGISTER_ENDPOINT: {Role.ADMIN},
    access.VIEW_AUDIT: {Role.ADMIN},
}


@pytest.mark.parametrize("permission", ALLOWED)
@pytest.mark.parametrize("role", Role)
def test_each_role_may_do_exactly_its_own(role, permission):
    assert access.may(person("pat", role), permission) == (role in ALLOWED[permission])


@pytest.mark.parametrize("permission", ALLOWED)
def test_strangers_anonymous_and_inactive_people_may_do_nothing(permission):
    inactive = person("ina", Role.ADMIN)
    inactive.is_active = False
    for nobody in (person("stan"), AnonymousUser(), inactive):
        assert not access.may(nobody, permission)
        with pytest.raises(PermissionDenied):
            access.require(nobody, permission)


def test_a_person_with_two_roles_may_do_both():
    both = person("bo", Role.REVIEWER, Role.OPERATOR)
    assert access.may(both, access.START) and access.may(both, access.REVIEW_BUNDLE)


class TestRunOr404:
    def test_a_viewer_gets_the_run_in_one_query(self, django_assert_num_queries):
        run, vera = run_row(), person("vera", Role.VIEWER)
        access.may(vera, access.VIEW)  # Django keeps a person's permissions
        with django_assert_num_queries(1):
            found = access.run_or_404(vera, run.key)
            assert (found.profile.name, found.worker.name) == ("environment-smoke", "local")
        assert access.run_or_404(vera, run.pk) == run

    @pytest.mark.parametrize("key", ["", "r1", "0" * 32, "../etc", "z" * 32])
    def test_unknown_and_malformed_ids_are_404(self, key):
        with pytest.raises(Http404):
            access.run_or_404(person("vera", Role.VIEWER), key)

    def test_a_stranger_learns_nothing_about_existence(self):
        run, stan = run_row(), person("stan")
        for key in (run.key, "0" * 32):
            with pytest.raises(PermissionDenied):
                access.run_or_404(stan, key)

    def test_private_reading_is_not_for_viewers(self):
        run = run_row()
        with pytest.raises(PermissionDenied):
            access.run_or_404(person("vera", Role.VIEWER), run.key, access.READ_PRIVATE)
        assert access.run_or_404(person("olga", Role.OPERATOR), run.key, access.READ_PRIVATE) == run

    def test_a_trial_is_found_by_its_ordinal(self):
        run, vera = run_row(), person("vera", Role.VIEWER)
        assert access.trial_or_404(vera, run.key, 2).task_name == "config-merge"
        for ordinal in (0, 4):
            with pytest.raises(Http404):
                access.trial_or_404(vera, run.key, ordinal)


class TestRoles:
    def test_setting_them_up_again_restores_each_role_and_keeps_foreign_permissions(self):
        group = Group.objects.get(name="viewer")
        too_much = Permission.objects.get(codename="start_run")
        foreign = Permission.objects.get(codename="view_user")
        group.permissions.add(too_much, foreign)
        access.set_up_roles()
        names = set(group.permissions.values_list("codename", flat=True))
        assert names == {*PERMISSIONS_OF_ROLE[Role.VIEWER], "view_user"}

    def test_every_role_exists_after_migrating(self):
        assert set(Group.objects.values_list("name", flat=True)) >= set(Role)

    def test_a_superuser_may_do_all(self):
        root = User.objects.create_superuser("root")
        assert all(access.may(root, permission) for permission in ALLOWED)


def test_the_guards_can_be_installed_again_and_name_real_columns():
    install()
    install()
    assert len({guard.name for guard in GUARDS}) == len(GUARDS)
