"""One scratch PostgreSQL for all tests of this folder, a database for each site."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgresql import scratch_postgresql
from tests.production.sites import Site, new_database


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with scratch_postgresql() as url:
        yield url


@pytest.fixture(scope="session")
def migrated(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a migrated database, to be copied: migrating takes seconds."""
    with new_database(server, "migrated") as url:
        Site(tmp_path_factory.mktemp("migrating") / "data", url).done("migrate", "--verbosity", "0")
        yield "migrated"


@pytest.fixture
def empty_site(server: str, tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    """Makes sites with an empty database and no data folder yet."""
    with ExitStack() as databases:

        def make(name: str) -> Site:
            url = databases.enter_context(new_database(server, f"{name}-{uuid.uuid4().hex[:8]}"))
            return Site(tmp_path / name, url)

        yield make


@pytest.fixture
def site(server: str, migrated: str, tmp_path: Path) -> Iterator[Site]:
    """A migrated site."""
    with new_database(server, f"site-{uuid.uuid4().hex[:8]}", migrated) as url:
        (tmp_path / "site").mkdir(mode=0o700)
        yield Site(tmp_path / "site", url)
