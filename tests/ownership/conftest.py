"""Journals, a scripted engine, and a tiny real image that is removed by its exact id."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runs.containers import ContainerRequest, connect
from runs.ownership import Journal, Role

from .fake_engine import FakeEngine

FAKE_IMAGE = "sha256:" + "a" * 64
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def journal_on(engine: FakeEngine, directory: Path, **options: Any) -> Journal:
    """A journal whose wall clock is the engine's virtual one."""

    def now() -> str:
        return (EPOCH + timedelta(seconds=engine.now)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    return Journal(directory, now=now, **options)


def agent_request(image_id: str = FAKE_IMAGE, **changes: Any) -> ContainerRequest:
    fields: dict[str, Any] = {
        "role": Role.AGENT,
        "image_id": image_id,
        "command": ("/bin/busybox", "sleep", "60"),
        "cpus": 0.5,
        "memory_bytes": 64 << 20,
        "pids": 32,
        "nofile": 128,
        "tmpfs": {"/tmp": 1 << 20},
    }
    return ContainerRequest(**{**fields, **changes})


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def journal(tmp_path: Path, engine: FakeEngine) -> Journal:
    Journal.create(tmp_path / "run", run_id="r1")
    return journal_on(engine, tmp_path / "run")


@pytest.fixture(scope="session")
def api() -> Iterator[Any]:
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def tiny_image(api: Any) -> Iterator[str]:
    """The id of an image that holds one static program."""
    busybox = shutil.which("busybox")
    assert busybox is not None, "these tests need the package busybox-static"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
    image_id: str = json.loads(api.import_image_from_data(archive.getvalue()))["status"]
    yield image_id
    api.remove_image(image_id)
