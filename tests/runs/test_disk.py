"""A full disk is no defect of the program: every command says what it is, and exits with 4."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage

from benchsite.lib.disk import disk_trouble
from runs.engine import worker
from runs.models import TaskBundle
from tests.commands.calling import command
from tests.documents.samples import copy_bundle

pytestmark = pytest.mark.django_db


def onto_a_full_disk(*_: object, **__: object) -> None:
    """The kernel's own answer, of a device that is always full."""
    with Path("/dev/full").open("w") as file:
        file.write("x")


def read_only(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def a_copied_tree(*_: object, **__: object) -> None:
    raise shutil.Error([("a", "b", str(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))])


def behind_another(*_: object, **__: object) -> None:
    try:
        onto_a_full_disk()
    except OSError as error:
        raise RuntimeError("it did not work") from error


FAILURES: list[tuple[Callable[..., None], str]] = [
    (onto_a_full_disk, "disk.full"),
    (a_copied_tree, "disk.full"),
    (behind_another, "disk.full"),
    (read_only, "disk.read_only"),
]


@pytest.mark.parametrize(("fail", "code"), FAILURES)
def test_an_import_onto_a_disk_that_takes_nothing_says_so(
    fail: Callable[..., None], code: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "stored"}}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    folder = copy_bundle(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(FileSystemStorage, "_save", half_of_it(fail))
        result = command("bundle", "import", str(folder), "--json")
    assert (result.code, result.json["code"]) == (4, code)
    assert "unexpectedly" not in result.err and "Traceback" not in result.err
    assert not TaskBundle.objects.exists()
    assert command("bundle", "import", str(folder)).code == 0  # with room again; what was half written is mended
    assert command("bundle", "check", "environment-smoke").code == 0


def half_of_it(fail: Callable[..., None]) -> Callable[..., str]:
    """A write that fails in the middle, and leaves what it had written."""

    def save(storage: FileSystemStorage, name: str, content: Any) -> str:
        path = Path(storage.path(name))
        path.parent.mkdir(parents=True)
        path.write_bytes(content.read(10))
        fail()
        return name

    return save


def test_a_report_onto_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "report_capabilities", onto_a_full_disk)
    result = command("worker", "--report", "--json")
    assert (result.code, result.json["code"]) == (4, "disk.full")


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EACCES, "no"), OSError("without a number"), ValueError("28"), shutil.Error([("a", "b", "no")])],
)
def test_another_failure_is_not_taken_for_the_disk(error: Exception) -> None:
    assert disk_trouble(error) is None


def test_a_chain_of_errors_that_never_ends_is_not_followed_for_ever() -> None:
    first, second = ValueError(), ValueError()
    first.__context__, second.__context__ = second, first
    assert disk_trouble(first) is None
