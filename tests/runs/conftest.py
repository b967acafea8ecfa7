"""A real queue for tests that need one: an embedded server in a data folder that nothing else uses."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django_rq.settings import QUEUES

from benchsite.lib import embedded_redis


@pytest.fixture
def real_queue(settings, monkeypatch) -> Iterator[None]:
    """An empty embedded Valkey below a data folder of this one test (short: sockets have short names)."""
    folder = Path(tempfile.mkdtemp(prefix="bq-"))
    settings.DATA = folder
    settings.REDIS_SOCKET = folder / "redis" / "redis.sock"
    monkeypatch.setitem(QUEUES["default"], "URL", f"unix://{settings.REDIS_SOCKET}?db=0")
    embedded_redis.ensure()
    yield
    embedded_redis.stop()
    shutil.rmtree(folder, ignore_errors=True)
