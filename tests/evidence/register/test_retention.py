"""What expires, what is kept whatever its age, and what stays to be seen of what was removed."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.core.files.storage import default_storage
from django.db import IntegrityError
from django.utils import timezone

from evidence.models import Artifact, ArtifactState, LegalHold
from evidence.register import store
from evidence.register.auditing import audit
from evidence.register.ingest import ingest
from evidence.register.publishing import publish
from evidence.register.retention import Held, due, expire, hold, release
from evidence.suite.judgement import judge
from evidence.suite.run_facts import read_run
from runs.engine.ending.work_deletion import WorkRefused, delete_evidence, holds_evidence
from runs.models import AuditEntry, Cleanup, Run
from runs.services.refusals import BadInput
from runs.services.runlog import Line, append_log
from tests.evidence.folders import passing_run
from tests.evidence.management.test_commands import called
from tests.evidence.register.test_ingest import finished
from tests.evidence.rows import run_of
from tests.runs.rows import person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_storage(settings: Any, tmp_path: Path) -> Iterator[None]:
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "stored"}}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    settings.DATA = tmp_path / "data"
    yield


def ended(tmp_path: Path, *, days_ago: int = 40) -> Run:
    """A passed run with published evidence, three log lines and its folder on this host, that ended days ago."""
    case = passing_run(1)
    run, folder = run_of(case, tmp_path)
    home = tmp_path / "data/runs" / run.key
    home.parent.mkdir(parents=True)
    folder.rename(home)
    ingest(run, home)
    append_log(run.pk, [Line(source="engine", text=f"line {n}") for n in range(3)])
    with time_machine.travel(timezone.now() - timedelta(days=days_ago)):
        run = finished(run, home)
    facts = read_run(home)
    publish(run, facts, judge(facts, cleanup_clean=run.cleanup == "clean"))
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def admin() -> Any:
    return person("ada", "admin")


def test_private_files_and_log_lines_go_and_everything_public_stays(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    before = {artifact.path: artifact for artifact in Artifact.objects.filter(run=run)}
    private = [artifact for artifact in before.values() if not artifact.public]
    done = expire(user=admin, run=run)
    assert (done.files, done.log_lines) == (len(private), 3)
    assert done.bytes == sum(artifact.size for artifact in private)
    for artifact in Artifact.objects.filter(run=run):
        old = before[artifact.path]
        if old.public:
            assert store.verify(artifact)
            continue
        assert (artifact.state, artifact.stored, artifact.sha256) == (ArtifactState.REMOVED, "", old.sha256)
        assert artifact.source_size == old.size and "by retention on 20" in artifact.note
        assert not default_storage.exists(old.stored)
    run.refresh_from_db()
    assert (run.verdict, run.count_passed, run.log_dropped, run.log_next) == ("passed", 1, 3, 3)
    (entry,) = AuditEntry.objects.filter(kind="expire", run_id=run.pk)
    assert entry.detail["files"] == len(private) and entry.actor_name == "ada"


def test_what_was_removed_is_no_difference_to_an_audit_and_is_named(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    assert audit(run).clean and not audit(run).expired
    expire(user=admin, run=run)
    report = audit(run)
    assert report.clean and report.expired and "spec.json" in report.unavailable
    code, printed = called("audit", run.key)
    assert code == 0 and "removed by retention" in printed


def test_a_second_removal_finds_nothing_and_adds_no_entry(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    expire(user=admin, run=run)
    assert not expire(user=admin, run=run).anything
    assert AuditEntry.objects.filter(kind="expire").count() == 1


def test_a_removal_that_was_cut_short_is_completed(tmp_path: Path, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ended(tmp_path)
    removed: list[str] = []

    def cut_short(artifact: Artifact) -> None:
        if len(removed) == 2:
            raise OSError(5, "Input/output error")
        removed.append(artifact.stored)
        default_storage.delete(artifact.stored)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input"):
        patch.setattr("evidence.register.retention.store.delete", cut_short)
        expire(user=admin, run=run)
    assert not Artifact.objects.filter(run=run, state=ArtifactState.REMOVED).exists()
    expire(user=admin, run=run)
    assert not Artifact.objects.filter(run=run, public=False).exclude(state=ArtifactState.REMOVED).exists()


def test_a_hold_keeps_everything_until_it_is_released(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    hold(user=admin, run=run, reason="asked for by the court")
    assert list(due(timezone.now())) == []
    with pytest.raises(Held):
        expire(user=admin, run=run)
    assert all(store.verify(artifact) for artifact in Artifact.objects.filter(run=run) if artifact.readable)
    assert release(user=admin, run=run) and not release(user=admin, run=run)
    assert list(due(timezone.now())) == [run]
    assert [entry.detail for entry in AuditEntry.objects.filter(kind="legal_hold").order_by("id")] == [
        {"placed": "asked for by the court"},
        {"released": True},
    ]


def test_one_hold_lies_on_a_run_and_its_history_is_kept(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    first = hold(user=admin, run=run, reason="one")
    assert hold(user=admin, run=run, reason="two").reason == "one"
    release(user=admin, run=run)
    assert hold(user=admin, run=run, reason="three").pk != first.pk
    with pytest.raises(IntegrityError):
        LegalHold.objects.create(run=run, reason="beside it", placed_by_name="x")


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_hold_needs_a_reason(tmp_path: Path, admin: Any, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        hold(user=admin, run=ended(tmp_path), reason=reason)
    assert refused.value.code == "retention.no_reason"


def test_a_run_that_is_not_over_keeps_everything(tmp_path: Path, admin: Any) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    assert list(due(timezone.now() + timedelta(days=1))) == []
    with pytest.raises(BadInput) as refused:
        expire(user=admin, run=run)
    assert refused.value.code == "retention.not_over"


def test_a_run_that_may_still_own_something_keeps_everything(tmp_path: Path, admin: Any) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    run = finished(run, folder, cleanup=Cleanup.FAILED)
    assert list(due(timezone.now() + timedelta(days=1))) == []
    with pytest.raises(BadInput) as refused:
        expire(user=admin, run=run)
    assert refused.value.code == "retention.not_over"
    assert json.loads(called("expire", "--user", "ada", "--older-than", "0", "--json")[1])["not_clean"] == 1


@pytest.mark.parametrize("role", ["viewer", "operator", "reviewer"])
def test_only_administrators_remove_and_hold(tmp_path: Path, role: str) -> None:
    run, olga = ended(tmp_path), person("olga", role)
    for act in (
        lambda: expire(user=olga, run=run),
        lambda: hold(user=olga, run=run, reason="x"),
        lambda: release(user=olga, run=run),
    ):
        with pytest.raises(PermissionDenied):
            act()
    assert not Artifact.objects.filter(state=ArtifactState.REMOVED).exists()


# --- the command ---


def test_without_apply_nothing_is_changed(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    code, printed = called("expire", "--user", "ada", "--older-than", "30", "--json")
    document = json.loads(printed)
    assert (code, document["schema"], document["applied"]) == (0, "benchsite.expiry/v1", False)
    (found,) = document["runs"]
    assert (found["run"], found["log_lines"], found["folder"]) == (run.key, 3, True) and found["files"] > 5
    assert audit(run).clean and not audit(run).expired
    assert not AuditEntry.objects.filter(kind="expire").exists()


def test_with_apply_the_folder_goes_too_except_its_journal(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    home = tmp_path / "data/runs" / run.key
    beside = home.parent / ("0" * 32)
    beside.mkdir()
    (beside / "spec.json").write_text("{}")
    code, printed = called("expire", "--user", "ada", "--older-than", "30", "--apply")
    assert code == 0 and f"run {run.key} ended" in printed and "its folder here" in printed
    assert [path.name for path in home.iterdir()] == ["journal.json"]
    assert (beside / "spec.json").exists()
    assert called("expire", "--user", "ada", "--older-than", "30", "--apply")[1].startswith("0 runs: 0 files")


def test_younger_runs_and_held_ones_are_counted_and_kept(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path, days_ago=10)
    assert json.loads(called("expire", "--user", "ada", "--older-than", "30", "--json")[1])["runs"] == []
    assert called("hold", run.key, "--reason", "a dispute", "--user", "ada")[0] == 0
    document = json.loads(called("expire", "--user", "ada", "--older-than", "5", "--json")[1])
    assert (document["runs"], document["held"]) == ([], 1)
    assert called("hold", run.key, "--release", "--user", "ada")[0] == 0
    assert len(json.loads(called("expire", "--user", "ada", "--older-than", "5", "--json")[1])["runs"]) == 1


def test_the_setting_says_how_long_and_without_it_nothing_expires(tmp_path: Path, admin: Any, settings: Any) -> None:
    ended(tmp_path)
    code, printed = called("expire", "--user", "ada")
    assert code == 2 and "BENCHSITE_RETENTION_DAYS" in printed
    settings.RETENTION_DAYS = 30
    assert len(json.loads(called("expire", "--user", "ada", "--json")[1])["runs"]) == 1
    settings.RETENTION_DAYS = 60
    assert json.loads(called("expire", "--user", "ada", "--json")[1])["runs"] == []


@pytest.mark.parametrize("days", ["-1", "36501"])
def test_an_age_that_is_none_is_refused(admin: Any, days: str) -> None:
    assert called("expire", "--user", "ada", f"--older-than={days}")[0] == 2


def test_the_local_operator_may_not_remove(tmp_path: Path) -> None:
    ended(tmp_path)
    assert called("expire", "--older-than", "0", "--apply")[0] == 2
    assert not Artifact.objects.filter(state=ArtifactState.REMOVED).exists()


def test_one_run_that_cannot_be_removed_does_not_keep_the_others(tmp_path: Path, admin: Any) -> None:
    run = ended(tmp_path)
    home = tmp_path / "data/runs" / run.key
    elsewhere = tmp_path / "elsewhere"
    home.rename(elsewhere)
    home.symlink_to(elsewhere)
    code, printed = called("expire", "--user", "ada", "--older-than", "30", "--apply")
    assert code == 4 and "1 could not be removed" in printed
    assert (elsewhere / "spec.json").exists() and audit(run).clean and not audit(run).expired


# --- the folder ---


def test_links_in_an_expired_folder_are_removed_and_not_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "runs" / ("a" * 32), tmp_path / "outside"
    (home / "trials/1").mkdir(parents=True)
    outside.mkdir()
    (outside / "precious").write_text("x")
    for place in (home / "link", home / "trials/1/link"):
        place.symlink_to(outside)
    (home / "journal.json").write_text("{}")
    assert holds_evidence(tmp_path, "a" * 32) and delete_evidence(tmp_path, "a" * 32)
    assert [path.name for path in home.iterdir()] == ["journal.json"] and (outside / "precious").exists()
    assert not holds_evidence(tmp_path, "a" * 32) and not delete_evidence(tmp_path, "a" * 32)


@pytest.mark.parametrize("name", ["", "..", "a" * 31, "../" + "a" * 32])
def test_only_a_runs_own_folder_is_looked_at(tmp_path: Path, name: str) -> None:
    for act in (holds_evidence, delete_evidence):
        with pytest.raises(WorkRefused):
            act(tmp_path, name)


def test_a_run_of_another_host_has_no_folder_here(tmp_path: Path) -> None:
    assert not holds_evidence(tmp_path, "a" * 32) and not delete_evidence(tmp_path, "a" * 32)
