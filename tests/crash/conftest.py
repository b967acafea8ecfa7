"""One rig for all tests here: an engine of their own, a site, a worker."""

import shutil
from collections.abc import Iterator

import pytest

from tests.crash.rig import Rig, crash_rig


@pytest.fixture(scope="package")
def rig() -> Iterator[Rig]:
    missing = [program for program in ("dockerd", "unshare", "setpriv", "ip") if shutil.which(program) is None]
    if missing:
        pytest.fail(f"an engine of the test's own needs {', '.join(missing)}")
    with crash_rig() as made:
        yield made
