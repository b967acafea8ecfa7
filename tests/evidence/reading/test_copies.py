"""A copy that people made stays what it was: no time of a copy is judged, nor what their systems put into it."""

import json
import os
import shutil
import time
import zipfile
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from benchsite.lib.folder import Folder
from benchsite.lib.foreign_files import is_foreign
from evidence.reading.tree import tree_files, tree_sha256
from evidence.suite.run_facts import ignored_files, read_run
from evidence.trial.classify import classify_trial
from tests.evidence.folders import RunCase, passing_run

REAL = Path(__file__).parents[2] / "fixtures/real-run"
PUT_THERE = [
    ".DS_Store", "trials/.DS_Store", "trials/1/.DS_Store", "trials/1/job/.DS_Store", "trials/1/kept/.DS_Store",
    "trials/1/kept/verifier/.DS_Store", "trials/1/kept/verifier/._reward.json", "trials/1/kept/Thumbs.db",
    "trials/1/kept/agent/desktop.ini", "trials/1/kept/agent/Desktop.ini", "__MACOSX/._spec.json",
    "trials/__MACOSX/1/._x", "trials/1/job/__MACOSX/._x", "trials/._2", "._run.json", ".Spotlight-V100/x",
]  # fmt: skip


def code_of(run: Path) -> str:
    return classify_trial(read_run(run).trials[0]).code


def put(run: Path, path: str, data: bytes = b"\0\0\0\1Bud1") -> None:
    (run / path).parent.mkdir(parents=True, exist_ok=True)
    (run / path).write_bytes(data)


@pytest.mark.parametrize("hours", [-12, -9, 0, 9, 14])
def test_6a_a_zip_that_is_unpacked_in_another_time_zone_is_what_it_was(
    hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ZIP has local times, so unpacking moves every file's time by the distance of the two zones."""
    packed = tmp_path / "run.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(path for path in REAL.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(path.relative_to(REAL).as_posix(), time.localtime(path.stat().st_mtime)[:6])
            archive.writestr(info, path.read_bytes())
    monkeypatch.setenv("TZ", f"X{-hours:+d}")
    time.tzset()
    try:
        with zipfile.ZipFile(packed) as archive:
            for info in archive.infolist():
                target = Path(archive.extract(info, tmp_path / "run"))
                moment = time.mktime((*info.date_time, 0, 0, -1))
                os.utime(target, (moment, moment))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert code_of(tmp_path / "run") == "passed.reward_1"


def test_no_time_of_a_copy_is_judged(tmp_path: Path) -> None:
    run = shutil.copytree(REAL, tmp_path / "run")
    for path in run.rglob("*"):
        os.utime(path, (1, 1))
    assert code_of(run) == "passed.reward_1"


@pytest.mark.parametrize("path", PUT_THERE)
def test_6b_6c_what_a_desktop_system_puts_into_a_copy_changes_nothing_and_is_named(path: str, tmp_path: Path) -> None:
    run = shutil.copytree(REAL, tmp_path / "run")
    before = tree_sha256(tree_files(Folder(run)))
    put(run, path)
    assert code_of(run) == "passed.reward_1"
    assert tree_sha256(tree_files(Folder(run))) == before
    assert ignored_files(run, read_run(run)) == [path]


def test_classify_names_what_it_ignores(tmp_path: Path) -> None:
    run = shutil.copytree(REAL, tmp_path / "run")
    put(run, "trials/.DS_Store")
    out = StringIO()
    call_command("classify", str(run), stdout=out)
    assert "ignored, because a desktop system puts such files there: trials/.DS_Store\n" in out.getvalue()
    out = StringIO()
    call_command("classify", str(run), "--json", stdout=out)
    assert json.loads(out.getvalue())["ignored"] == ["trials/.DS_Store"]


@pytest.mark.parametrize("path", ["trials/DS_Store", "trials/.ds-store", "trials/x.DS_Store", "trials/1/kept/thumbs"])
def test_what_only_looks_like_it_is_judged(path: str, tmp_path: Path) -> None:
    assert not is_foreign(path)
    run = shutil.copytree(REAL, tmp_path / "run")
    put(run, path)
    assert code_of(run) in ("integrity.foreign_trial", "integrity.artifact_hash")


def with_own(names: list[str], *, many: bool = False) -> RunCase:
    """A run whose agent left files of such names, which the attendant recorded."""
    case = passing_run(1)
    case.trial.kept.update({f"agent/{name}": b"the agent's" for name in names})
    if many:
        case.trial.kept.update({f"agent/many/{number:03}.txt": b"x" for number in range(300)})
    case.trial.recopy()
    return case


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", [".DS_Store", "many/._299.txt", "zzz/Thumbs.db"])
def test_a_file_of_such_a_name_that_was_recorded_is_judged(many: bool, name: str, tmp_path: Path) -> None:
    case = with_own([name], many=many)
    run = case.write(tmp_path / "run")
    assert code_of(run) == "passed.reward_1"
    assert many or ignored_files(run, read_run(run)) == []
    (run / "trials/1/kept/agent" / name).write_bytes(b"another's")
    assert code_of(run) == "integrity.artifact_hash"
    (run / "trials/1/kept/agent" / name).unlink()
    assert code_of(run) == "integrity.artifact_hash"


@pytest.mark.parametrize("own", [[], [".DS_Store"]])
def test_of_a_long_copy_it_is_ignored_too(own: list[str], tmp_path: Path) -> None:
    run = with_own(own, many=True).write(tmp_path / "run")
    put(run, "trials/1/kept/agent/many/.DS_Store")
    put(run, "trials/1/kept/agent/many/._001.txt")
    assert code_of(run) == "passed.reward_1"
