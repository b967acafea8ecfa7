"""An export holds everything readable, its list of hashes holds, and no secret leaves."""

import subprocess
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from evidence.models import Artifact
from evidence.register import store
from evidence.register.export import SUMS, ExportRefused, export
from evidence.register.ingest import ingest
from runs.models import AuditEntry, AuditKind, Run
from tests.evidence.folders import passing_run
from tests.evidence.management.test_commands import called
from tests.evidence.rows import run_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(settings: Any, tmp_path: Path) -> Run:
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    row, folder = run_of(passing_run(2), tmp_path)
    kept = folder / "trials/1/kept/agent"
    (kept / "back\\slash").write_bytes(b"a")
    (kept / "new\nline").write_bytes(b"b")
    (kept / "link").symlink_to("/etc/passwd")
    ingest(row, folder)
    return row


def test_sha256sum_accepts_the_unpacked_export(run: Run, tmp_path: Path) -> None:
    found = export(run)
    data = b"".join(found.chunks)
    assert len(data) == found.size
    with zipfile.ZipFile(BytesIO(data)) as archive:
        archive.extractall(tmp_path / "out")
    root = tmp_path / "out" / f"benchsite-{run.key}"
    done = subprocess.run(["sha256sum", "-c", "--strict", SUMS], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == found.files > 20
    assert "kept/agent/link\tRefused: not a plain file" in (root / "NOT-INCLUDED.txt").read_text()


def test_an_export_for_everybody_holds_only_what_is_public(run: Run) -> None:
    names = zipfile.ZipFile(BytesIO(b"".join(export(run, public_only=True).chunks))).namelist()
    assert names == [f"benchsite-{run.key}/{SUMS}"]


def test_a_known_secret_inside_refuses_the_export_by_the_files_name(run: Run) -> None:
    artifact = Artifact.objects.get(run=run, path="trials/1/kept/verifier/test-stdout.txt")
    store.delete(artifact)
    store.save(artifact, BytesIO(b"the key is sk-SENTINEL-12345"))
    artifact.save()
    with pytest.raises(ExportRefused) as refusal:
        export(run, secrets=["sk-SENTINEL-12345"])
    assert refusal.value.paths == (artifact.path,)
    assert "SENTINEL" not in refusal.value.sentence and "test-stdout.txt" in refusal.value.sentence


def test_a_quarantined_file_refuses_the_export(run: Run) -> None:
    Artifact.objects.filter(run=run, path="spec.json").update(state="quarantined")
    with pytest.raises(ExportRefused):
        export(run)


def test_a_changed_file_breaks_the_export_off(run: Run, tmp_path: Path) -> None:
    artifact = Artifact.objects.get(run=run, path="spec.json")
    (tmp_path / "stored" / artifact.stored).write_bytes(b"x" * artifact.size)
    with pytest.raises(store.HashDiffers):
        b"".join(export(run).chunks)


def test_the_command_writes_a_new_file_and_audits_it(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.zip"
    assert called("export", run.key, str(target), "--json")[0] == 0
    assert zipfile.ZipFile(target).testzip() is None and target.stat().st_mode & 0o777 == 0o600
    entry = AuditEntry.objects.get(kind=AuditKind.DOWNLOAD)
    assert entry.run_id == run.pk and entry.detail["bytes"] == target.stat().st_size
    code, printed = called("export", run.key, str(target))
    assert code == 2 and "cannot be made" in printed


def test_the_command_refuses_a_secret_and_leaves_no_file(run: Run, tmp_path: Path) -> None:
    Artifact.objects.filter(run=run, path="spec.json").update(state="quarantined")
    code, printed = called("export", run.key, str(tmp_path / "out.zip"))
    assert code == 3 and "spec.json" in printed and not (tmp_path / "out.zip").exists()


def test_the_command_leaves_no_half_archive_of_a_changed_file(run: Run, tmp_path: Path) -> None:
    artifact = Artifact.objects.get(run=run, path="spec.json")
    (tmp_path / "stored" / artifact.stored).write_bytes(b"x" * artifact.size)
    assert called("export", run.key, str(tmp_path / "out.zip"))[0] == 4
    assert not (tmp_path / "out.zip").exists()
