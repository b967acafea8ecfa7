"""A storage that cannot be asked is an outage: no file counts as lost or changed for it, and nothing is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from django.core.files.storage import FileSystemStorage, default_storage

from evidence.models import Artifact
from evidence.register import store
from evidence.register.ingest import ingest
from evidence.register.reading import open_trajectory, text_window
from runs.models import Run
from tests.evidence.folders import passing_run
from tests.evidence.management.test_commands import called
from tests.evidence.rows import run_of

pytestmark = pytest.mark.django_db
ANSWER = "trials/1/kept/agent/mini-swe-agent.txt"


class NoConnection(Exception):
    """As object stores raise them: of no class of Python's own."""


class Away:
    """A file that was opened, and then its storage went away."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self, *_: object) -> bytes:
        raise self.error

    seek = read

    def close(self) -> None:
        pass


@pytest.fixture
def run(settings: Any, tmp_path: Path) -> tuple[Run, Path]:
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    row, folder = run_of(passing_run(1), tmp_path)
    ingest(row, folder)
    return row, folder


def never_opens(error: Exception) -> Callable[..., IO[bytes]]:
    def fail(*_: object) -> IO[bytes]:
        raise error

    return fail


def opens_and_fails(error: Exception) -> Callable[..., Any]:
    return lambda *_: Away(error)


OUTAGES = {
    "an object store that is not reached": never_opens(NoConnection("no route")),
    "an object store that goes away": opens_and_fails(NoConnection("no route")),
    "a share that is away": opens_and_fails(OSError(5, "Input/output error")),
    "a folder that may not be read": never_opens(PermissionError(13, "denied")),
}


@pytest.fixture(params=OUTAGES.values(), ids=OUTAGES)
def outage(request: pytest.FixtureRequest, run: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(FileSystemStorage, "_open", request.param)
    return run[0]


def refused(*arguments: str) -> tuple[int, str]:
    """The exit code, and the code of the refusal."""
    code, printed = called(*arguments, "--json")
    return code, json.loads(printed.splitlines()[-1])["code"]


def artifact(run: Run, path: str = ANSWER) -> Artifact:
    return Artifact.objects.get(run=run, path=path)


def test_a_file_that_cannot_be_got_is_not_called_lost(outage: Run, tmp_path: Path) -> None:
    target = tmp_path / "got"
    asked = ("evidence", outage.key, "--get", artifact(outage).key, "--output", str(target))
    assert refused(*asked) == (4, "evidence.storage_fails") and not target.exists()


def test_an_audit_finds_no_difference_and_does_not_pass(outage: Run) -> None:
    assert refused("audit", outage.key) == (4, "evidence.storage_fails")


def test_an_audit_whose_storage_goes_away_in_the_middle_finds_no_difference(
    run: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is read twice: to be hashed, and to derive the results again."""
    kept, opens, opened = len([row for row in Artifact.objects.all() if row.readable]), FileSystemStorage._open, []

    def open_or_fail(storage: FileSystemStorage, name: str, mode: str = "rb") -> Any:
        opened.append(name)
        if len(opened) > kept:
            raise NoConnection("no route")
        return opens(storage, name, mode)

    monkeypatch.setattr(FileSystemStorage, "_open", open_or_fail)
    assert refused("audit", run[0].key) == (4, "evidence.storage_fails")
    assert len(opened) == kept + 1


def test_no_archive_is_written(outage: Run, tmp_path: Path) -> None:
    target = tmp_path / "run.zip"
    assert refused("export", outage.key, str(target)) == (4, "evidence.storage_fails") and not target.exists()


def test_pages_say_that_it_does_not_answer(outage: Run) -> None:
    assert "does not answer at the moment" in text_window(artifact(outage)).reason
    with open_trajectory(outage.trials.get()) as opened:
        assert "does not answer at the moment" in opened.reason


def test_a_run_that_is_ingested_again_waits_for_the_storage(outage: Run, run: tuple[Run, Path]) -> None:
    before = list(Artifact.objects.order_by("pk").values())
    with pytest.raises(store.StorageFails):
        ingest(*run)
    assert list(Artifact.objects.order_by("pk").values()) == before
    assert all(default_storage.exists(row["stored"]) for row in before if row["stored"])


def test_a_file_that_is_not_there_is_lost(run: tuple[Run, Path], tmp_path: Path) -> None:
    lost = artifact(run[0])
    default_storage.delete(lost.stored)
    asked = ("evidence", run[0].key, "--get", lost.key, "--output", str(tmp_path / "got"))
    assert refused(*asked) == (4, "evidence.missing")
