"""The profile that the smoke runs, where others of the same name were imported."""

import pytest

from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.services import registry
from runs.smoke.driver import packaged_profile
from tests.runs.rows import profile_row

pytestmark = pytest.mark.django_db


def test_the_smoke_takes_the_packaged_profile_however_many_were_imported_after_it():
    packaged = registry.store_profile((ENVIRONMENT_SMOKE / "profile.json").read_bytes(), user=None)
    own = profile_row(packaged.name)
    assert registry.find_profile(packaged.name) == own
    assert packaged_profile() == packaged
