"""A bundle moves draft → certified → reviewed → retired, and a reviewed revision never changes again."""

import json

import pytest
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, connection, transaction

from runs.documents.bundle.manifest import LoadedBundle, load_manifest
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.models import AuditEntry, BundleStatus, TaskBundle
from runs.models.documents import FrozenBundle
from runs.services import reviewing
from runs.services.reviewing import BundleRefused
from tests.runs.rows import person
from tests.runs.sites import install_bundle

pytestmark = pytest.mark.django_db
MANIFEST = (ENVIRONMENT_SMOKE / "manifest.json").read_bytes()


def manifest(revision: int = 1, **changes: object) -> LoadedBundle:
    return load_manifest(json.dumps({**json.loads(MANIFEST), "revision": revision, **changes}).encode())


def certified(revision: int = 1, by: str | None = "bert") -> TaskBundle:
    user = None if by is None else person(by)
    bundle = reviewing.store_bundle(manifest(revision), user=user)
    return reviewing.certify(bundle, record={"passed": True}, user=user)


def test_a_revision_goes_from_draft_to_retired_and_each_step_is_audited():
    rita = person("rita", "reviewer")
    bundle = reviewing.review(certified(), user=rita, note="read every file")
    assert (bundle.status, bundle.reviewed_by_name, bundle.review_note) == (
        "reviewed",
        "rita",
        "read every file",
    )
    assert reviewing.retire(bundle, user=rita).status == BundleStatus.RETIRED
    kinds = list(AuditEntry.objects.order_by("id").values_list("kind", flat=True))
    assert kinds == ["bundle_import", "bundle_certify", "bundle_review", "bundle_retire"]


def test_a_draft_cannot_be_reviewed_and_a_failed_certification_is_none():
    draft = reviewing.store_bundle(manifest(), user=None)
    with pytest.raises(BundleRefused) as refused:
        reviewing.review(draft, user=person("rita", "reviewer"))
    assert refused.value.code == "bundle.not_certified"
    for record in ({}, {"passed": False}, {"passed": 1}):
        with pytest.raises(BundleRefused):
            reviewing.certify(draft, record=record, user=None)


@pytest.mark.parametrize("roles", [(), ("viewer",), ("operator",)])
def test_only_reviewers_review_and_retire(roles):
    someone = person("sam", *roles)
    with pytest.raises(PermissionDenied):
        reviewing.review(certified(), user=someone)
    with pytest.raises(PermissionDenied):
        reviewing.retire(install_bundle(), user=someone)


def test_ones_own_revision_needs_the_sites_setting_which_is_audited(settings):
    bundle, rita = certified(by="rita"), person("rita", "reviewer")
    with pytest.raises(BundleRefused) as refused:
        reviewing.review(bundle, user=rita)
    assert refused.value.code == "bundle.own_revision"
    settings.SELF_REVIEW = True
    reviewing.review(bundle, user=rita)
    assert AuditEntry.objects.get(kind="bundle_review").detail["own_revision"] is True


def test_a_new_review_retires_the_revision_before():
    rita = person("rita", "reviewer")
    first = reviewing.review(certified(1), user=rita)
    second = reviewing.review(certified(2), user=rita)
    first.refresh_from_db()
    assert (first.status, second.status) == ("retired", "reviewed")


def test_another_manifest_needs_another_revision():
    stored = reviewing.store_bundle(manifest(), user=None)
    assert reviewing.store_bundle(manifest(), user=None) == stored
    with pytest.raises(BundleRefused) as refused:
        reviewing.store_bundle(manifest(description="another"), user=None)
    assert refused.value.code == "bundle.revision_taken"


def test_the_packaged_bundle_is_installed_reviewed_and_only_once():
    assert install_bundle() == install_bundle()
    assert TaskBundle.objects.get().status == BundleStatus.REVIEWED
    assert AuditEntry.objects.filter(kind="bundle_review").count() == 1


class TestFrozen:
    """A reviewed revision never changes, whichever way it is tried."""

    def test_by_saving_or_deleting(self):
        bundle = install_bundle()
        bundle.manifest = "{}"
        with pytest.raises(FrozenBundle):
            bundle.save()
        for delete in (bundle.delete, TaskBundle.objects.all().delete):
            with pytest.raises(FrozenBundle):
                delete()
        # Not even by pretending that it is a draft.
        bundle.status = "draft"
        with pytest.raises(FrozenBundle):
            bundle.save()

    @pytest.mark.parametrize(
        "change",
        [
            {"manifest": "{}"}, {"manifest_sha256": "0" * 64}, {"revision": 9}, {"name": "other"},
            {"packaged": "other"}, {"certification": "{}"}, {"reviewed_by_name": "eve"}, {"reviewed_at":
            None}, {"status": "draft"}, {"status": "certified"},
        ],
        ids=lambda change: next(iter(change)),
    )  # fmt: skip
    def test_by_an_update(self, change):
        install_bundle()
        with pytest.raises(IntegrityError), transaction.atomic():
            TaskBundle.objects.update(**change)

    def test_by_raw_sql(self):
        bundle = install_bundle()
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE runs_taskbundle SET manifest = '{}'")
        stored = TaskBundle.objects.get()
        assert stored.manifest == bundle.manifest

    def test_a_retired_one_is_not_revived(self):
        reviewing.retire(install_bundle(), user=person("rita", "reviewer"))
        with pytest.raises(IntegrityError), transaction.atomic():
            TaskBundle.objects.update(status="reviewed")

    @pytest.mark.skipif("connection.vendor == 'sqlite'", reason="deletion is guarded by a trigger in PostgreSQL only")
    def test_by_a_raw_delete(self):
        install_bundle()
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM runs_taskbundle")

    def test_a_draft_may_change(self):
        reviewing.store_bundle(manifest(), user=None)
        assert TaskBundle.objects.update(packaged="other") == 1
