"""A site's rows, its environment for processes, and sessions with its tools."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection

from evidence.models import Artifact
from evidence.register import store
from runs.models import Run
from tests.mcp.sessions import Session, session
from tests.runs.conftest import real_queue  # noqa: F401 - a fixture
from tests.runs.sites import Site, ready_site


@pytest.fixture
def site(db: None) -> Site:
    return ready_site()


@pytest.fixture
def environment(transactional_db: None, real_queue: None, settings: Any) -> dict[str, str]:  # noqa: F811
    """Of a process that works on this test's database, queue and storage."""
    names = ("PATH", "HOME", "BENCHSITE_ASSETS", "DATABASE_URL")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {
        **kept,
        "BENCHSITE_DATA": str(Path(default_storage.location).parent),
        "DJANGO_SETTINGS_MODULE": "tests.mcp.settings",
        "TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "REDIS_URL": f"unix://{settings.REDIS_SOCKET}?db=0",
        "BENCHSITE_LOG_FORMAT": "json",
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "mcp.log"


@pytest.fixture
def connect(environment: dict[str, str], log: Path) -> Iterator[Callable[[str], Session]]:
    """Connect a client whose tools act for that user."""
    with ExitStack() as sessions:
        yield lambda user: sessions.enter_context(session(user, environment, log))


def keep(run: Run, path: str, content: bytes, *, public: bool = False, kind: str = "agent_log") -> Artifact:
    """A stored file of a run."""
    row = Artifact(run=run, trial=1, kind=kind, path=path, state="ok" if content else "empty", public=public)
    store.save(row, ContentFile(content))
    row.save()
    return row
