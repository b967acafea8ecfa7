"""An owned bench of real parts for the tests behind the gate; it removes what was made, and checks it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attendant.real_parts import Bench, Parts, find_parts


@pytest.fixture(scope="session")
def parts() -> Parts:
    return find_parts()


@pytest.fixture
def bench(tmp_path: Path, parts: Parts) -> Iterator[Bench]:
    with Bench(tmp_path / "run", parts) as made:
        yield made
