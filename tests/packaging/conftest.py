"""One wheel and one environment for all tests of the installed product."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.installing import Installed, build_wheel, install


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    yield install(wheel, tmp_path_factory.mktemp("installed"))
