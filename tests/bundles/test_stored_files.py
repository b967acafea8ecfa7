"""An imported bundle's files: stored once by their hash, fetched and verified by each worker."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage
from django.core.management.sql import emit_post_migrate_signal, emit_pre_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from benchsite.lib.canonical import canonical_bytes, sha256
from benchsite.lib.problems import DocumentError
from evidence.register import retention, store
from runs.documents.bundle import checksums, packaged
from runs.documents.bundle.tree import FileRecord
from runs.engine.host.folder import RunFolder
from runs.engine.preflight.run_preflight import PreflightFailed, copy_tasks
from runs.models import AuditEntry, TaskBundle
from runs.services import bundle_files, bundle_import, reviewing
from runs.services.bundle_files import CACHE, MAX_CACHED, blob_name, bundle_folder, check_stored
from runs.services.preview_checks import checks_of
from tests.commands.calling import command
from tests.documents import samples
from tests.evidence.register.test_retention import ended
from tests.evidence.register.test_storage_outage import OUTAGES
from tests.runs.rows import person
from tests.runs.sites import ready_site
from tests.spec_documents import run_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(settings: Any, tmp_path: Path) -> Path:
    """The storage's folder."""
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "stored"}}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    return tmp_path / "stored"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return samples.copy_bundle(tmp_path)


@pytest.fixture
def bundle(folder: Path, stored: Path) -> TaskBundle:
    """Imported from a folder that is gone since."""
    row = bundle_import.import_bundle(folder, user=None)
    shutil.rmtree(folder)
    return row


class Worker:
    """A host of its own, as far as files go."""

    def __init__(self, data: Path, settings: Any) -> None:
        self.data, self._settings, self._runs = data, settings, 0

    def copied(self, bundle: TaskBundle) -> Path:
        """The folder of the tasks that a run's preflight copies."""
        self._settings.DATA = self.data
        self._runs += 1
        folder = RunFolder.of(self.data, f"{self._runs:032x}")
        folder.create()
        manifest = json.loads(bundle.manifest)
        changes = {f"tasks.{n}.checksum": task["checksum"] for n, task in enumerate(manifest["tasks"])}
        changes["bundle.manifest_sha256"] = bundle.manifest_sha256
        copy_tasks(bundle, run_spec(*(task["name"] for task in manifest["tasks"]), changes=changes), folder)
        return folder.path / "tasks"

    def refused(self, bundle: TaskBundle) -> tuple[str, str]:
        with pytest.raises(PreflightFailed) as caught:
            self.copied(bundle)
        return caught.value.failure_class, caught.value.code

    @property
    def cached(self) -> list[Path]:
        return [path for path in (self.data / CACHE).iterdir() if path.name != ".lock"]

    @property
    def left(self) -> list[str]:
        """What a fetch that is over left in the scratch folder."""
        return [path.name for path in (self.data / "scratch").iterdir() if path.name != ".lock"]


@pytest.fixture
def worker(tmp_path: Path, settings: Any) -> Worker:
    return Worker(tmp_path / "another-host", settings)


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reviewed_files() -> dict[str, bytes]:
    found = files_below(packaged.ENVIRONMENT_SMOKE / "tasks")
    return {path: data for path, data in found.items() if "__pycache__" not in path}


def blobs(bundle: TaskBundle) -> list[str]:
    """The hashes of the bundle's files."""
    return [file["sha256"] for task in json.loads(bundle.manifest)["tasks"] for file in task["files"]]


def test_another_host_gets_the_reviewed_files_from_the_storage(bundle: TaskBundle, worker: Worker) -> None:
    copied = worker.copied(bundle)
    assert files_below(copied) == reviewed_files()
    assert {path.name for path in copied.rglob("*") if path.is_file() and path.stat().st_mode & 0o100} == {"test.sh"}
    [cached] = worker.cached
    assert cached.name == bundle.manifest_sha256 and worker.left == []
    assert {path.stat().st_mode & 0o077 for path in [worker.data / CACHE, *cached.rglob("*")]} == {0}


def test_what_was_fetched_once_needs_no_storage_any_more(bundle: TaskBundle, worker: Worker, stored: Path) -> None:
    worker.copied(bundle)
    shutil.rmtree(stored)
    assert files_below(worker.copied(bundle)) == reviewed_files()


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1] + b"?", lambda data: data + b"\n", lambda data: data[:-1], lambda _: b""],
    ids=["another byte", "longer", "shorter", "empty"],
)  # fmt: skip
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_a_changed_blob_is_a_breach_and_nothing_of_it_is_kept(
    bundle: TaskBundle, worker: Worker, stored: Path, which: int, change: Callable[[bytes], bytes]
) -> None:
    blob = stored / blob_name(blobs(bundle)[which])
    blob.write_bytes(change(blob.read_bytes()))
    assert worker.refused(bundle) == ("integrity", "bundle.stored_changed")
    assert (worker.cached, worker.left) == ([], [])
    assert {problem.code for problem in check_stored(bundle)} == {"bundle.stored_changed"}


def test_a_lost_blob_is_no_breach_and_the_bundle_can_be_imported_again(
    bundle: TaskBundle, worker: Worker, stored: Path, tmp_path: Path
) -> None:
    (stored / blob_name(blobs(bundle)[-1])).unlink()
    assert worker.refused(bundle) == ("worker_runtime", "bundle.not_stored")
    assert (worker.cached, worker.left) == ([], [])
    assert [problem.code for problem in check_stored(bundle)] == ["bundle.not_stored"]
    assert bundle_import.import_bundle(samples.copy_bundle(tmp_path), user=None) == bundle
    assert files_below(worker.copied(bundle)) == reviewed_files()


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_an_outage_is_not_the_bundles_fault(
    bundle: TaskBundle, worker: Worker, outage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr(FileSystemStorage, "_open", outage)
        assert worker.refused(bundle) == ("worker_runtime", "bundle.storage_fails")
        assert (worker.cached, worker.left) == ([], [])
        refused = command("bundle", "check", bundle.name, "--json")
        assert (refused.code, refused.json["code"]) == (4, "bundle.storage_fails")
    assert files_below(worker.copied(bundle)) == reviewed_files()


def linked_to_a_copy(path: Path) -> None:
    """The right content, but behind a link."""
    path.symlink_to(path.rename(Path(tempfile.mkdtemp(dir=os.environ["BENCHSITE_DATA"])) / path.name))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "another byte": lambda folder: next(folder.rglob("grading.py")).write_bytes(b"x"),
    "a file less": lambda folder: next(folder.rglob("test.sh")).unlink(),
    "a file more": lambda folder: (folder / "tasks/file-tree/environment/more").write_bytes(b"x"),
    "half of it": lambda folder: shutil.rmtree(folder / "tasks/file-tree"),
    "empty": lambda folder: shutil.rmtree(folder / "tasks"),
    "a link in place of a file": lambda folder: linked_to_a_copy(next(folder.rglob("grading.py"))),
    "a link in place of the folder": linked_to_a_copy,
    "a link in place of its tasks": lambda folder: linked_to_a_copy(folder / "tasks"),
    "a file in place of the folder": lambda folder: (shutil.rmtree(folder), folder.write_bytes(b"x")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_cache_is_never_used_and_is_fetched_again(
    bundle: TaskBundle, worker: Worker, damage: Callable[[Path], object]
) -> None:
    worker.copied(bundle)
    [cached] = worker.cached
    damage(cached)
    assert files_below(worker.copied(bundle)) == reviewed_files()
    assert worker.cached == [cached] and not any(path.is_symlink() for path in [cached, *cached.rglob("*")])
    assert files_below(cached / "tasks") == reviewed_files()


@pytest.mark.parametrize("path", ["../../../escaped", "/tmp/escaped", "tests/../../escaped", "a\0b", ".ssh/x", "a//b"])
def test_a_manifest_whose_paths_lead_elsewhere_writes_nothing(
    bundle: TaskBundle, worker: Worker, path: str, tmp_path: Path
) -> None:
    manifest = json.loads(bundle.manifest)
    task = manifest["tasks"][0]
    task["files"] = sorted([*task["files"], {"path": path, "size": 1, "sha256": sha256(b"x")}], key=lambda f: f["path"])
    consistent(task)
    TaskBundle.objects.update(manifest=canonical_bytes(manifest).decode(), status="draft")
    bundle.refresh_from_db()
    before = set(tmp_path.rglob("*"))
    with pytest.raises(DocumentError), bundle_folder(bundle, worker.data):
        pass
    assert set(tmp_path.rglob("*")) == before
    assert worker.refused(bundle) == ("integrity", "bundle.changed")


def consistent(task: dict[str, Any]) -> None:
    records = [FileRecord(file["path"], file["size"], file["sha256"]) for file in task["files"]]
    task |= {"checksum": checksums.task_checksum(records), "files_sha256": checksums.content_digest(records)}


def test_a_manifest_that_asks_for_too_much_is_refused_before_anything_is_read(
    bundle: TaskBundle, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = json.loads(bundle.manifest)
    task = manifest["tasks"][0]
    more = [{"path": f"tests/zz{n}", "size": 1024 * 1024, "sha256": sha256(b"x")} for n in range(9)]
    task["files"] = sorted([*task["files"], *more], key=lambda file: file["path"])
    consistent(task)
    bundle.manifest = canonical_bytes(manifest).decode()
    monkeypatch.setattr(FileSystemStorage, "_open", lambda *_: pytest.fail("the storage was asked"))
    with pytest.raises(bundle_files.StoredBundleChanged), bundle_folder(bundle, worker.data):
        pass


def test_the_cache_keeps_the_bundles_that_were_used_last(bundle: TaskBundle, worker: Worker) -> None:
    cache = worker.data / CACHE
    others = [cache / f"{n:064x}" for n in range(MAX_CACHED + 2)]
    for age, other in enumerate(others):
        (other / "tasks").mkdir(parents=True)
        os.utime(other, (1_000_000 - age, 1_000_000 - age))
    worker.copied(bundle)
    assert set(worker.cached) == {cache / bundle.manifest_sha256, *others[: MAX_CACHED - 1]}


def test_a_bundle_that_is_being_read_is_not_removed_by_another(
    bundle: TaskBundle, worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker.copied(bundle)
    monkeypatch.setattr(bundle_files, "MAX_CACHED", 1)
    other = import_next_revision(tmp_path)
    with bundle_folder(bundle, worker.data) as reading:
        assert files_below(worker.copied(other)) == reviewed_files()
        assert files_below(reading / "tasks") == reviewed_files() and worker.cached == [reading]
    worker.copied(other)
    assert [path.name for path in worker.cached] == [other.manifest_sha256]


def import_next_revision(tmp_path: Path) -> TaskBundle:
    (tmp_path / "next").mkdir()
    folder = samples.copy_bundle(tmp_path / "next")
    source = json.loads((folder / "bundle.json").read_bytes())
    (folder / "bundle.json").write_text(json.dumps({**source, "revision": source["revision"] + 1}))
    assert command("bundle", "build", str(folder)).code == 0
    return bundle_import.import_bundle(folder, user=None)


def test_blobs_are_written_once_and_mended_when_they_are_not_whole(
    bundle: TaskBundle, stored: Path, tmp_path: Path
) -> None:
    """A process that is killed while it stores leaves half a blob under its final name."""
    half = stored / blob_name(blobs(bundle)[0])
    half.write_bytes(half.read_bytes()[:5])
    others = {path: path.stat().st_ino for path in stored.rglob("*") if path.is_file() and path != half}
    bundle_import.import_bundle(samples.copy_bundle(tmp_path), user=None)
    assert check_stored(bundle) == []
    assert {path: path.stat().st_ino for path in stored.rglob("*") if path.is_file() and path != half} == others


def test_one_who_stores_the_same_at_the_same_moment_leaves_one_blob(
    folder: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the write another import stores the same bytes under the same name."""
    save = FileSystemStorage.save

    def late(storage: FileSystemStorage, name: str, content: Any, **more: Any) -> str:
        save(storage, name, ContentFile(content.read()))
        return save(storage, name, content, **more)

    monkeypatch.setattr(FileSystemStorage, "save", late)
    row = bundle_import.import_bundle(folder, user=None)
    assert check_stored(row) == []
    assert all(len(path.name) == 64 for path in stored.rglob("*") if path.is_file())


def test_a_storage_that_does_not_keep_what_is_written_stores_no_revision(
    folder: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = FileSystemStorage.save
    monkeypatch.setattr(FileSystemStorage, "save", lambda self, name, content: save(self, name, ContentFile(b"other")))
    refused = command("bundle", "import", str(folder), "--json")
    assert (refused.code, refused.json["code"], TaskBundle.objects.exists()) == (4, "bundle.storage_fails", False)


def test_an_executable_whose_mode_would_be_lost_is_refused_by_name(folder: Path, stored: Path) -> None:
    (folder / "tasks/file-tree/instruction.md").chmod(0o755)
    refused = command("bundle", "import", str(folder), "--json")
    [problem] = refused.json["problems"]
    assert (refused.code, problem["code"]) == (2, "bundle.mode_not_kept")
    assert problem["path"] == "tasks/file-tree/instruction.md" and not TaskBundle.objects.exists()


def test_no_cleanup_of_evidence_touches_a_bundle(bundle: TaskBundle, stored: Path, tmp_path: Path) -> None:
    run = ended(tmp_path)
    (stored / run.key / "left").write_bytes(b"of a process that died")
    assert retention.expire(user=person("ada", "admin"), run=run).files
    assert store.forget_unregistered(run, ())
    assert list((stored / run.key).iterdir()) == [] and check_stored(bundle) == []


def test_the_list_and_the_check_say_where_files_are(bundle: TaskBundle, stored: Path) -> None:
    assert [row["files"] for row in command("bundle", "list", "--json").json["bundles"]] == ["storage"]
    assert command("bundle", "check", bundle.name, "--revision", str(bundle.revision)).code == 0
    unknown = command("bundle", "check", bundle.name, "--revision", "9" * 15, "--json")
    assert (unknown.code, unknown.json["code"]) == (2, "input.unknown_bundle")
    (stored / blob_name(bundle.manifest_sha256)).unlink()
    found = command("bundle", "check", bundle.name, "--json")
    assert (found.code, [problem["path"] for problem in found.json["problems"]]) == (4, ["manifest.json"])


@pytest.mark.django_db(transaction=True)
def test_a_row_of_before_is_imported_again_and_is_otherwise_the_same(stored: Path, tmp_path: Path, client: Any) -> None:
    """Rows named a folder of one host. The upgrade reads no file, also of reviewed revisions, which never change."""
    row = before_the_upgrade()
    bundle = TaskBundle.objects.get(pk=row["id"])
    assert (bundle.place, TaskBundle.objects.get(name="other").place) == ("missing", "package")
    site = ready_site()
    failed = [check for check in previewed(site) if not check["passed"] and check["level"] == "block"]
    assert [check["code"] for check in failed] == ["bundle.not_stored"]
    assert "manage.py bundle import" in failed[0]["remedy"]
    client.force_login(person("vera", "viewer"))
    page = client.get(f"/bundles/{bundle.name}/{bundle.revision}/").content.decode()
    assert "Import the same revision again" in page
    assert "import it again" in client.get("/bundles/").content.decode()
    bundle_import.import_bundle(samples.copy_bundle(tmp_path), user=None)
    again = TaskBundle.objects.get(pk=row["id"])
    same = set(row) - {"location"}
    assert {name: getattr(again, name) for name in same} == {name: row[name] for name in same}
    assert again.place == "storage" and check_stored(again) == []
    assert not [check for check in previewed(site) if not check["passed"] and check["level"] == "block"]
    [entry] = AuditEntry.objects.filter(kind="bundle_import")
    assert entry.detail["files_stored_again"] is True


def previewed(site: Any) -> list[dict[str, Any]]:
    bundle = TaskBundle.objects.get(pk=site.bundle.pk)
    return checks_of(profile=site.profile, bundle=bundle, endpoint=site.endpoint, worker=site.worker, problems=[])


def before_the_upgrade() -> dict[str, Any]:
    """A reviewed revision as the release before kept it, with the guard that it had; then the upgrade."""
    manifest = packaged.read_bundle(packaged.ENVIRONMENT_SMOKE)
    executor, before = MigrationExecutor(connection), [("runs", "0006_worker_removal_audited")]
    emit_pre_migrate_signal(0, False, "default", plan=[])  # as the command does
    executor.migrate(before)
    try:
        rows = executor.loader.project_state(before).apps.get_model("runs", "TaskBundle")
        now = timezone.now()
        common = {"revision": manifest.manifest.revision, "status": "reviewed", "reviewed_at": now, "created_at": now}
        text = canonical_bytes(manifest.document).decode()
        kept = rows.objects.create(
            name=manifest.manifest.name, manifest=text, manifest_sha256=manifest.manifest_sha256,
            location="/gone/bundles/environment-smoke/1", **common,
        )  # fmt: skip
        rows.objects.create(name="other", manifest="{}", manifest_sha256="0" * 64, location="packaged:other", **common)
        values: dict[str, Any] = rows.objects.filter(pk=kept.pk).values()[0]
        with connection.cursor() as cursor:
            cursor.execute(_OLD_GUARD[connection.vendor])
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
        emit_post_migrate_signal(0, False, "default")
    return values


_OLD_GUARD = {
    "sqlite": (
        "CREATE TRIGGER guard_bundle_content BEFORE UPDATE OF name, location ON runs_taskbundle "
        "WHEN OLD.status IN ('reviewed', 'retired') AND NEW.location IS NOT OLD.location "
        "BEGIN SELECT RAISE(ABORT, 'guard bundle_content: this never changes'); END"
    ),
    "postgresql": (
        "CREATE TRIGGER guard_bundle_content BEFORE UPDATE OF name, location ON runs_taskbundle FOR EACH ROW "
        "WHEN (OLD.status IN ('reviewed', 'retired') AND NEW.location IS DISTINCT FROM OLD.location) "
        "EXECUTE FUNCTION benchsite_refuse()"
    ),
}


def old(place: Path) -> None:
    for path in place.rglob("*"):
        os.utime(path, (1, 1))


def test_what_a_failed_import_left_goes_with_a_later_one_and_nothing_else(folder: Path, stored: Path) -> None:
    row = bundle_import.import_bundle(folder, user=None)
    kept = {path.name for path in stored.rglob("*") if path.is_file()}
    abandoned = stored / blob_name(sha256(b"left by an import that was killed"))
    abandoned.parent.mkdir(parents=True, exist_ok=True)
    abandoned.write_bytes(b"left by an import that was killed")
    assert bundle_files.collect_abandoned() == 0 and abandoned.exists()  # it may still go on
    old(stored)
    bundle_import.import_bundle(folder, user=None)
    assert not abandoned.exists()
    assert {path.name for path in stored.rglob("*") if path.is_file()} == kept and check_stored(row) == []


def test_an_import_that_is_refused_leaves_nothing_for_long(
    folder: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise reviewing.BundleRefused("taken", code="bundle.revision_taken")

    with monkeypatch.context() as patched, pytest.raises(reviewing.BundleRefused):
        patched.setattr(reviewing, "store_bundle", refused)
        bundle_import.import_bundle(folder, user=None)
    assert any(path.is_file() for path in stored.rglob("*"))
    old(stored)
    assert bundle_files.collect_abandoned() > 0
    assert not any(path.is_file() for path in stored.rglob("*"))
    row = bundle_import.import_bundle(folder, user=None)
    assert check_stored(row) == []


def test_nothing_is_collected_where_nothing_is_stored(stored: Path) -> None:
    assert bundle_files.collect_abandoned() == 0
