"""What tests of imports share."""

from pathlib import Path

import pytest

from tests.experiments.jobs import unpack


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All folders, never to be changed."""
    return unpack(tmp_path_factory.mktemp("jobs"))
