"""`classify` needs only a folder; `audit` compares register, storage and rows; both exit as documented."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from evidence.models import Artifact
from evidence.register.ingest import ingest
from tests.evidence.folders import RunCase, passing_run
from tests.evidence.rows import run_of
from tests.evidence.variants import Change, cancel, cancelled_in_agent, interrupted_in_agent, reward


class Terminal(StringIO):
    """What a command takes for a terminal."""

    def isatty(self) -> bool:
        return True


def called(*arguments: str, out: StringIO | None = None) -> tuple[int, str]:
    out = StringIO() if out is None else out
    try:
        call_command(*arguments, stdout=out, stderr=out)
    except SystemExit as stop:
        return int(str(stop.code)), out.getvalue()
    return 0, out.getvalue()


def none(run: RunCase) -> None:
    """Changes nothing."""


@pytest.mark.parametrize(
    ("change", "code", "verdict"),
    [
        (none, 0, "passed"),
        (reward(b'{"reward":0}'), 1, "failed"),
        (reward(), 4, "incomplete"),
        (interrupted_in_agent, 4, "error"),
        (cancelled_in_agent, 5, "cancelled"),
    ],
)
def test_classify_says_what_a_copied_folder_amounts_to(tmp_path: Path, change: Change, code: int, verdict: str) -> None:
    run = passing_run(1)
    change(run)
    folder = run.write(tmp_path / "copy")
    exit_code, printed = called("classify", str(folder), "--json")
    document = json.loads(printed)
    assert (exit_code, document["verdict"], document["schema"]) == (code, verdict, "benchsite.classification/v1")
    assert document["counts"]["requested"] == len(document["trials"]) == 1
    assert called("classify", str(folder))[0] == code


def test_classify_compares_a_spec_hash_that_is_known_from_elsewhere(tmp_path: Path) -> None:
    folder = passing_run(1).write(tmp_path / "copy")
    _, printed = called("classify", str(folder), "--json", "--spec-sha256", "0" * 64)
    assert json.loads(printed)["failed_checks"] == [{"name": "spec.confirmed", "code": "integrity.spec_mismatch"}]


def test_classify_refuses_what_is_no_folder(tmp_path: Path) -> None:
    code, printed = called("classify", str(tmp_path / "absent"))
    assert code == 2 and "no folder" in printed


def test_a_job_folder_without_its_config_is_read_and_nothing_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def executed(*arguments: Any, **_more: Any) -> None:
        raise AssertionError(f"executed: {arguments}")

    folder = passing_run(2).write(tmp_path / "copy")
    config = folder / "trials/1/job/config.json"
    config.unlink()
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    monkeypatch.setattr("subprocess.Popen", executed)
    exit_code, printed = called("classify", str(folder), "--json")
    assert (exit_code, [trial["bucket"] for trial in json.loads(printed)["trials"]]) == (4, ["error", "passed"])
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before


def test_classify_reads_an_empty_folder(tmp_path: Path) -> None:
    code, printed = called("classify", str(tmp_path), "--json")
    assert code == 4 and json.loads(printed)["trials"] == []
    assert called("classify", str(tmp_path))[1].endswith("Passed: 0 of 0 · Graded: 0 of 0\n")


def test_a_trial_that_was_graded_before_a_cancel_keeps_its_grade(tmp_path: Path) -> None:
    run = passing_run(2)
    run.never_started(2)
    cancel(50)(run)
    _, printed = called("classify", str(run.write(tmp_path / "copy")), "--json")
    assert [trial["bucket"] for trial in json.loads(printed)["trials"]] == ["passed", "cancelled"]


@pytest.mark.django_db
def test_audit_exits_4_when_a_stored_file_differs(tmp_path: Path, settings: Any) -> None:
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    artifact = Artifact.objects.get(run=run, path="trials/1/kept/agent/mini-swe-agent.txt")
    (tmp_path / "stored" / artifact.stored).write_bytes(b"changed")
    code, printed = called("audit", run.key[:8], "--json")
    document = json.loads(printed)
    assert code == 4 and not document["clean"]
    assert ["file_differs", artifact.path] in [[each["what"], each["where"]] for each in document["differences"]]


@pytest.mark.django_db
def test_audit_refuses_an_unknown_run() -> None:
    assert called("audit", "0" * 32)[0] == 2
