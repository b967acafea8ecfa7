"""The prepared parts, for the tests behind the gate."""

import pytest

from tests.attendant.real_parts import Parts, find_parts


@pytest.fixture(scope="session")
def parts() -> Parts:
    return find_parts()
