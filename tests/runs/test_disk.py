"""A full disk is no defect of the program: every command says what it is, and exits with 4."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchsite.lib.disk import disk_trouble
from runs.engine import worker
from runs.services import bundle_import
from tests.commands.calling import command

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
    fail: Callable[..., None], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_import, "_copy", fail)
    folder = tmp_path / "bundle"
    shutil.copytree(bundle_import.PACKAGED / "environment-smoke", folder)
    result = command("bundle", "import", str(folder), "--json")
    assert (result.code, result.json["code"]) == (4, code)
    assert "unexpectedly" not in result.err and "Traceback" not in result.err


def test_a_bundle_that_cannot_be_put_in_its_place_is_no_bundle_with_missing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(bundle_import.PACKAGED / "environment-smoke", folder)
    monkeypatch.setattr(Path, "rename", onto_a_full_disk)
    result = command("bundle", "import", str(folder), "--json")
    assert (result.code, result.json["code"]) == (4, "disk.full")


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
