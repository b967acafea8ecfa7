"""A released revision of the packaged bundle never changes, and a site with an earlier content takes the new one."""

import json
from typing import Any

import pytest

from benchsite.lib.canonical import canonical_bytes
from runs.documents.bundle.manifest import load_manifest
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.models import BundleStatus, Profile, TaskBundle
from runs.services import bundle_import, registry, reviewing

# The manifests that were given out under each number: more than one where it was changed under the same one. Whoever
# changes the bundle after a release gives it a new revision; whoever releases adds a line.
RELEASED = {
    1: {
        "59eca5541ea7822a3cc873fcf71b4252f8ecbe54b29cac120676b8b2348719b2",
        "ccc1c54a3cceed4a281c654a5496085f7057b9308716949c0af9b6f47ef25dff",
        "7f44d64bbc7b51c5d409cdee59c62977416d2e0c1dd9efbc69814ceffd47341b",
        "f8f1745761c1f51fa7607747d5b1e566415d735416941964e4c49d1dcff17a65",
        "e41deed57af0bea14aa232fe2067558d8b952b22b92184ee1f4c13ccad033235",
    },
    2: {
        "1a5b439c50db65d342ee15b108aaf4435c13af9fc3298e5169351f425c504d24",
        "4722e141df8ee03567bc39116d2ca5dedcfa081d12abe33730f3cb752efdaa2b",
    },
}


def test_the_packaged_bundle_is_no_other_content_of_a_released_revision() -> None:
    bundle = read_bundle(ENVIRONMENT_SMOKE)
    known = RELEASED.get(bundle.manifest.revision, {bundle.manifest_sha256})
    assert bundle.manifest_sha256 in known, "give bundle.json a new revision, then run manage.py bundle build"


def earlier(revision: int, **recipes: str) -> Any:
    """The packaged bundle as a release before had it: another revision, other recipes."""
    document = json.loads((ENVIRONMENT_SMOKE / "manifest.json").read_text())
    document["revision"] = revision
    for role, recipe in recipes.items():
        document["images"][role]["recipe_sha256"] = recipe
    return load_manifest(canonical_bytes(document))


@pytest.mark.django_db
@pytest.mark.parametrize("revisions", [(1,), (2,), (1, 2)])
def test_a_site_of_any_release_before_takes_the_packaged_bundle(revisions: tuple[int, ...]) -> None:
    """The content was changed under revision 2, so that `prepare` of a site that had the earlier one was refused."""
    for revision in revisions:
        reviewing.install_packaged(
            earlier(revision, gateway="9" * 64),
            name="environment-smoke", certification={"passed": True}, reviewed_by="benchsite", note="before",
        )  # fmt: skip
    for _ in range(2):
        profile, bundle = bundle_import.install_packaged()
    assert bundle.status == BundleStatus.REVIEWED and registry.bundle_of(profile) == bundle
    before = TaskBundle.objects.exclude(pk=bundle.pk)
    assert {row.revision for row in before} == set(revisions)
    assert {row.status for row in before} == {BundleStatus.RETIRED}
    assert Profile.objects.count() == 1
