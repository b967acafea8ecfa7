"""`evidence` lists the register and gets files as the pages do: same permission, same audit row, same hash check."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib import words
from evidence.models import Artifact
from evidence.register.ingest import ingest
from runs.models import AuditEntry, Run
from tests.evidence.folders import passing_run
from tests.evidence.management.test_commands import Terminal, called
from tests.evidence.rows import run_of
from tests.runs.rows import person, run_row

pytestmark = pytest.mark.django_db
ANSWER = "trials/1/kept/agent/mini-swe-agent.txt"


@pytest.fixture
def run(settings: Any, tmp_path: Path) -> Run:
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    row, folder = run_of(passing_run(1), tmp_path)
    (folder / "trials/1/kept/agent/odd\x1b[31m\nname").write_bytes(b"a")
    (folder / "trials/1/kept/agent/link").symlink_to("/etc/passwd")
    ingest(row, folder)
    return row


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def artifact(run: Run, path: str = ANSWER) -> Artifact:
    return Artifact.objects.get(run=run, path=path)


def stored(run: Run, tmp_path: Path) -> Path:
    return tmp_path / "stored" / artifact(run).stored


def test_the_list_names_every_file_of_the_register(run: Run) -> None:
    code, printed = called("evidence", run.key, "--json")
    document = json.loads(printed)
    assert (code, document["schema"], document["run"]) == (0, "benchsite.evidence/v1", run.key)
    assert len(document["files"]) == Artifact.objects.filter(run=run).count() > 15
    (found,) = [file for file in document["files"] if file["path"] == ANSWER]
    row = artifact(run)
    assert found == {
        "id": row.key, "trial": 1, "kind": "agent_log", "path": ANSWER, "state": "ok", "privacy": "private",
        "size": row.size, "source_size": row.source_size, "sha256": row.sha256, "redactions": 0, "note": "",
    }  # fmt: skip


def test_what_was_refused_is_listed_without_an_id(run: Run) -> None:
    _, printed = called("evidence", run.key, "--json")
    (link,) = [file for file in json.loads(printed)["files"] if file["path"].endswith("/link")]
    assert (link["id"], link["size"], link["sha256"], link["state"]) == (None, None, None, "unsafe_type")


def test_in_a_pipe_a_file_is_one_inert_line(run: Run) -> None:
    _, printed = called("evidence", run.key)
    lines = printed.splitlines()
    assert len(lines) == Artifact.objects.filter(run=run).count()
    assert all(len(line.split("\t")) == 8 for line in lines) and "\x1b" not in printed


def test_on_a_terminal_a_file_is_two_lines_and_its_id_can_be_copied(run: Run) -> None:
    _, printed = called("evidence", run.key, out=Terminal())
    lines = printed.splitlines()
    row = artifact(run)
    assert len(lines) == 2 * Artifact.objects.filter(run=run).count() and "\x1b" not in printed
    place = lines.index(ANSWER)
    assert lines[place + 1] == f"  {row.key}  {words.size(row.size)}, stored, private, agent_log"
    assert lines[lines.index("trials/1/kept/agent/link") + 1] == "  refused: not a plain file, agent_log"
    assert max(map(len, lines[1::2])) <= 80


def test_a_run_without_evidence_says_so() -> None:
    assert called("evidence", run_row().key) == (0, "nothing is registered before the run ends\n")


def test_a_file_is_written_byte_for_byte_and_audited(run: Run, place: Path, tmp_path: Path) -> None:
    row, target = artifact(run), place / "log"
    code, printed = called("evidence", run.key[:8], "--get", row.key, "--output", str(target), "--json")
    assert (code, json.loads(printed)["schema"]) == (0, "benchsite.evidence-file/v1")
    assert target.read_bytes() == stored(run, tmp_path).read_bytes()
    assert target.stat().st_mode & 0o777 == 0o600
    entry = AuditEntry.objects.get(kind="download")
    assert (entry.actor_name, entry.subject, entry.run_id) == ("cli", ANSWER, run.pk)
    assert entry.detail == {"sha256": row.sha256, "bytes": row.size}


def test_stdout_gets_the_bytes_alone(run: Run, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, printed = called("evidence", run.key, "--get", artifact(run).key, "--output", "-")
    assert (code, printed) == (0, "")
    assert capfdbinary.readouterr().out == stored(run, tmp_path).read_bytes()


@pytest.mark.parametrize("what", ["file", "link to nowhere", "folder"])
def test_nothing_that_exists_is_overwritten(run: Run, place: Path, what: str) -> None:
    target = place / "log"
    match what:
        case "file":
            target.write_text("mine")
        case "folder":
            target.mkdir()
        case _:
            target.symlink_to(place / "absent")
    code, printed = called("evidence", run.key, "--get", artifact(run).key, "--output", str(target))
    assert code == 2 and "exists already" in printed
    assert [path.name for path in place.iterdir()] == ["log"]


def test_a_file_that_is_not_the_registered_one_exits_4_and_leaves_nothing(
    run: Run, place: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stored(run, tmp_path).write_bytes(b"other")
    key = artifact(run).key
    code, printed = called("evidence", run.key, "--get", key, "--output", str(place / "log"), "--json")
    assert (code, json.loads(printed.splitlines()[-1])["code"]) == (4, "evidence.hash_differs")
    assert list(place.iterdir()) == []
    assert called("evidence", run.key, "--get", key, "--output", "-")[0] == 4
    assert capfdbinary.readouterr().out == b""


def test_a_large_file_that_differs_at_its_end_leaves_nothing(run: Run, place: Path, tmp_path: Path) -> None:
    stored(run, tmp_path).write_bytes(b"x" * (5 * 1024 * 1024))
    assert called("evidence", run.key, "--get", artifact(run).key, "--output", str(place / "log"))[0] == 4
    assert list(place.iterdir()) == []


def test_a_file_that_is_gone_from_the_storage_exits_4(run: Run, place: Path, tmp_path: Path) -> None:
    stored(run, tmp_path).unlink()
    code, printed = called("evidence", run.key, "--get", artifact(run).key, "--output", str(place / "log"))
    assert code == 4 and "does not hold this file" in printed
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--get", "0" * 32, "--output", "x"], "List the ids with: manage.py evidence"),
        (["--get", ANSWER, "--output", "x"], "no file with the id"),
        (["--get", "0" * 32], "belong together"),
        (["--output", "x"], "belong together"),
        (["--get", "0" * 32, "--output", "-", "--json"], "leave --json out"),
    ],
)
def test_bad_usage_exits_2_with_its_remedy(run: Run, arguments: list[str], said: str) -> None:
    code, printed = called("evidence", run.key, *arguments)
    assert code == 2 and said in printed


def test_a_file_of_another_run_is_not_got(run: Run, place: Path) -> None:
    code, printed = called("evidence", run_row().key, "--get", artifact(run).key, "--output", str(place / "log"))
    assert code == 2 and "is not of run" in printed


def test_a_viewer_sees_and_gets_what_is_public_and_nothing_else(run: Run, place: Path) -> None:
    person("vera", "viewer")
    Artifact.objects.filter(run=run, path="spec.json").update(public=True)
    _, printed = called("evidence", run.key, "--user", "vera", "--json")
    assert [file["path"] for file in json.loads(printed)["files"]] == ["spec.json"]
    open_file, closed = artifact(run, "spec.json"), artifact(run)
    assert called("evidence", run.key, "--user", "vera", "--get", open_file.key, "--output", str(place / "a"))[0] == 0
    assert called("evidence", run.key, "--user", "vera", "--get", closed.key, "--output", str(place / "b"))[0] == 2
    assert [path.name for path in place.iterdir()] == ["a"]
    assert AuditEntry.objects.filter(kind="download").count() == 1


def test_what_is_quarantined_is_not_got(run: Run, place: Path) -> None:
    row = artifact(run)
    Artifact.objects.filter(pk=row.pk).update(state="quarantined")
    code, printed = called("evidence", run.key, "--get", row.key, "--output", str(place / "log"))
    assert code == 2 and "quarantined" in printed and list(place.iterdir()) == []


def test_an_export_that_breaks_off_leaves_nothing(run: Run, place: Path, tmp_path: Path) -> None:
    stored(run, tmp_path).write_bytes(b"other")
    assert called("export", run.key, str(place / "a.zip"))[0] == 4
    stored(run, tmp_path).unlink()
    assert called("export", run.key, str(place / "a.zip"))[0] == 4
    assert list(place.iterdir()) == []
