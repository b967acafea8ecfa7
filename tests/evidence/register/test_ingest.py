"""A run's folder becomes the register: bounded, scrubbed, hashed, and hostile entries are named."""

import contextlib
import errno
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import IntegrityError, connection, transaction

from benchsite.lib.redaction import Scrubber
from evidence.models import Artifact, ArtifactState
from evidence.register import ingest as ingesting
from evidence.register import store
from evidence.register.auditing import NoRoom, audit
from evidence.register.ingest import OVERFLOW, ingest
from evidence.register.judging import trial_end
from evidence.register.publishing import publish, quarantined
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, read_run
from evidence.trajectory.windows import Trajectory
from evidence.trial.classify import classify_trial
from runs.models import Cleanup, Run, RunState, Stage, Worker
from runs.models.states import LEGAL_ENDINGS
from runs.models.triggers import GUARDS
from runs.services import lifecycle
from runs.services.workers import record_image_locks
from tests.evidence.folders import RunCase, list_files, passing_run, sha256
from tests.evidence.rows import row_of, run_of
from tests.runs.rows import Process

pytestmark = pytest.mark.django_db
SECRET = "sk-SENTINEL-0123456789/ab+c"
REAL = Path(__file__).parents[2] / "fixtures/real-run"


@pytest.fixture(autouse=True)
def own_storage(settings: Any, tmp_path: Path) -> Iterator[None]:
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "stored"}}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    yield


def rows(run: Run) -> dict[str, Artifact]:
    return {artifact.path: artifact for artifact in Artifact.objects.filter(run=run)}


def stored(artifact: Artifact) -> bytes:
    return b"".join(store.chunks(artifact))


def test_a_file_beside_the_reward_is_kept_and_can_be_read(tmp_path: Path) -> None:
    case = passing_run(1)
    beside = b'{"resolved":true,"regressions":[]}'
    case.trial.kept["verifier/reward-details.json"] = beside
    case.trial.reward(json=None, txt=b"1")
    run, folder = run_of(case, tmp_path)
    ingest(run, folder)
    found = rows(run)["trials/1/kept/verifier/reward-details.json"]
    assert (found.state, stored(found)) == ("ok", beside)


def test_every_file_is_registered_with_its_hash_and_kind(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(2), tmp_path)
    report = ingest(run, folder)
    found = rows(run)
    reward = found["trials/1/kept/verifier/reward.json"]
    assert (reward.kind, reward.trial, reward.state, reward.public) == ("reward", 1, "ok", False)
    assert reward.sha256 == sha256(b'{"reward": 1}') and stored(reward) == b'{"reward": 1}'
    assert found["spec.json"].kind == "spec" and found["spec.json"].trial is None
    assert found["trials/2/job/task__AbCdEfG/result.json"].kind == "harbor_result"
    assert not [path for path in found if path.startswith(("work/", "tasks/"))]
    assert (report.refused, report.quarantined, report.redacted) == (0, 0, 0)
    assert report.stored == len(found)


def test_a_second_ingest_changes_no_row_and_stores_nothing_again(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    before = {path: (row.pk, row.key, row.stored) for path, row in rows(run).items()}
    ingest(run, folder)
    assert {path: (row.pk, row.key, row.stored) for path, row in rows(run).items()} == before


def test_a_changed_file_replaces_its_stored_bytes(tmp_path: Path, django_capture_on_commit_callbacks: Any) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    old = rows(run)["journal.json"]
    (folder / "journal.json").write_bytes(b"{}")
    with django_capture_on_commit_callbacks(execute=True):
        ingest(run, folder)
    new = rows(run)["journal.json"]
    assert new.pk == old.pk and new.stored != old.stored and stored(new) == b"{}"
    assert not default_storage.exists(old.stored)


def plant(folder: Path) -> Path:
    place = folder / "trials/1/kept/agent"
    place.mkdir(parents=True, exist_ok=True)
    return place


def test_links_fifos_devices_sockets_and_hard_links_are_named_and_never_followed(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    place = plant(folder)
    (tmp_path / "outside").write_text("outside SENTINEL")
    (place / "link").symlink_to(tmp_path / "outside")
    (place / "folder-link").symlink_to(tmp_path)
    (place / "dangling").symlink_to("/nonexistent")
    os.mkfifo(place / "fifo")
    (place / "hard").hardlink_to(tmp_path / "outside")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(place):
        server.bind("socket")  # a whole path would be too long for a socket
    names = ["link", "folder-link", "dangling", "fifo", "hard", "socket"]
    if os.geteuid() == 0:
        os.mknod(place / "device", 0o600 | 0o020000, os.makedev(1, 5))
        names.append("device")
    ingest(run, folder)
    found = rows(run)
    for name in names:
        artifact = found[f"trials/1/kept/agent/{name}"]
        assert (artifact.state, artifact.sha256, artifact.stored) == (ArtifactState.UNSAFE_TYPE, "", "")
    assert found["trials/1/kept/verifier/reward.json"].state == "ok"
    assert not any(b"SENTINEL" in path.read_bytes() for path in (tmp_path / "stored").rglob("*") if path.is_file())


def test_a_sparse_file_of_10_gb_is_refused_unread(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    with (plant(folder) / "sparse.bin").open("wb") as file:
        file.truncate(10 * 1024**3)
    ingest(run, folder, secrets=[SECRET])
    artifact = rows(run)["trials/1/kept/agent/sparse.bin"]
    kept = artifact.state == ArtifactState.TRUNCATED_SOURCE and artifact.size == ingesting.TAIL_BYTES
    assert kept and artifact.source_size == 10 * 1024**3
    artifact_file = plant(folder).parent / "artifacts/sparse.bin"
    with artifact_file.open("wb") as file:
        file.truncate(10 * 1024**3)
    ingest(run, folder)
    assert rows(run)["trials/1/kept/artifacts/sparse.bin"].state == ArtifactState.TOO_LARGE


def test_100_000_files_are_bounded_and_the_rest_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "MAX_FILES", 50)
    run, folder = run_of(passing_run(1), tmp_path)
    place = plant(folder) / "many"
    place.mkdir()
    for number in range(400):
        (place / f"{number}").touch()
    ingest(run, folder)
    found = rows(run)
    assert len(found) <= 52 and found[OVERFLOW].state == ArtifactState.TOO_LARGE
    assert found["spec.json"].state == found["trials/1/observed.jsonl"].state == "ok"


def test_a_full_run_refuses_what_no_longer_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "MAX_RUN_BYTES", 60_000)
    run, folder = run_of(passing_run(1), tmp_path)
    (plant(folder).parent / "artifacts/big.bin").write_bytes(b"x" * 60_001)
    ingest(run, folder)
    artifact = rows(run)["trials/1/kept/artifacts/big.bin"]
    assert artifact.state == ArtifactState.TOO_LARGE and "full" in artifact.note and artifact.source_size == 60_001


def test_the_end_of_a_huge_log_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "MAX_FILE_BYTES", 1000)
    monkeypatch.setattr(ingesting, "TAIL_BYTES", 100)
    run, folder = run_of(passing_run(1), tmp_path)
    (folder / "trials/1/harbor.log").write_bytes(SECRET.encode() + b"a" * 2000 + b"the end")
    ingest(run, folder, secrets=[SECRET])
    artifact = rows(run)["trials/1/harbor.log"]
    assert artifact.state == ArtifactState.TRUNCATED_SOURCE
    assert (artifact.size, stored(artifact)[-7:]) == (100, b"the end")
    assert SECRET.encode() not in (folder / "trials/1/harbor.log").read_bytes()


@pytest.mark.parametrize("name", ["\n", "a\x1b[31m", "\udcff", "ü" * 100, "x" * 250, "-rf", "'; drop"])
def test_odd_names_are_registered_printable(tmp_path: Path, name: str) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    (plant(folder) / name).write_bytes(b"content")
    ingest(run, folder)
    (artifact,) = [row for row in rows(run).values() if row.kind == "agent_log" and row.sha256 == sha256(b"content")]
    artifact.path.encode()
    assert artifact.path.isprintable()


def test_hostile_contents_are_stored_as_they_are(tmp_path: Path) -> None:
    """Zip bomb, deep JSON, invalid UTF-8: nothing unpacks or parses what an agent made."""
    run, folder = run_of(passing_run(1), tmp_path)
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * 10_000_000)
    contents = {
        "bomb.zip": bomb.getvalue(),
        "deep.json": b"[" * 200_000,
        "bad.txt": b"\xff\xfe\0",
        "x.svg": b"<svg><script/></svg>",
    }
    for name, data in contents.items():
        (plant(folder) / name).write_bytes(data)
    (plant(folder) / "mini-swe-agent.trajectory.json").write_bytes(b'{"messages": ' + b"[" * 200_000)
    ingest(run, folder)
    found = rows(run)
    for name, data in contents.items():
        assert stored(found[f"trials/1/kept/agent/{name}"]) == data


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    (plant(folder) / "root-only").write_bytes(b"x")
    (plant(folder) / "root-only").chmod(0)
    ingest(run, folder)
    assert rows(run)["trials/1/kept/agent/root-only"].state == ArtifactState.UNREADABLE


def leak(folder: Path) -> None:
    place = plant(folder)
    (place / "mini-swe-agent.txt").write_text(f"OPENAI_API_KEY={SECRET}\n")
    (place / "mini-swe-agent.trajectory.json").write_text(
        json.dumps({"messages": [{"role": "user", "content": SECRET}]})
    )
    (folder / "trials/1/harbor.log").write_text(f"Authorization: Bearer {SECRET}")


def test_a_secret_is_in_no_stored_file_and_not_in_the_folder(tmp_path: Path) -> None:
    case = passing_run(1)
    case.trial.kept["agent/mini-swe-agent.txt"] = f"OPENAI_API_KEY={SECRET}\n".encode()
    case.trial.recopy()
    run, folder = run_of(case, tmp_path)
    (folder / "trials/1/harbor.log").write_text(f"Authorization: Bearer {SECRET}")
    report = ingest(run, folder, secrets=[SECRET, "1"])
    assert (report.redacted, report.quarantined, report.secrets_not_searched) == (2, 0, 1)
    for place in (folder, tmp_path / "stored"):
        assert not any(b"SENTINEL" in path.read_bytes() for path in place.rglob("*") if path.is_file())
    assert stored(rows(run)["trials/1/kept/agent/mini-swe-agent.txt"]) == b"OPENAI_API_KEY=[REDACTED]\n"
    assert rows(run)["trials/1/harbor.log"].redactions == 1
    assert not quarantined(run)


def test_a_scrubbed_file_still_proves_what_the_provider_saw(tmp_path: Path) -> None:
    """The record of redactions holds the hash before, so a scrubbed log is no integrity error; another change is."""
    case = passing_run(1)
    case.trial.kept["agent/mini-swe-agent.txt"] = f"SESSION_TOKEN={SECRET}\n".encode()
    case.trial.recopy()
    run, folder = run_of(case, tmp_path)
    ingest(run, folder, secrets=[SECRET])
    assert classify_trial(read_run(folder).trials[0]).code == "passed.reward_1"
    ingest(run, folder, secrets=[SECRET, "SESSION_TOKEN"])
    assert classify_trial(read_run(folder).trials[0]).code == "passed.reward_1"
    (folder / "trials/1/kept/agent/mini-swe-agent.txt").write_bytes(b"forged")
    assert classify_trial(read_run(folder).trials[0]).code == "integrity.artifact_hash"


def test_an_ingest_that_was_killed_while_scrubbing_is_repeated(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    leak(folder)
    (folder / "trials/1/.harbor.log.new").write_bytes(b"half a file")
    assert ingest(run, folder, secrets=[SECRET]).redacted == 3
    assert not [path for path in rows(run) if path.endswith(".new")]


@pytest.mark.parametrize("name", ["語" * 85, "x" * 255, ".harbor.log.new", ".new"])
def test_no_name_that_an_agent_chooses_keeps_its_file_from_being_scrubbed(tmp_path: Path, name: str) -> None:
    """A name as long as names may be leaves no room for one of ours beside it; one like ours is no file of ours."""
    run, folder = run_of(passing_run(1), tmp_path)
    place = plant(folder) / name
    place.write_text(f"token {SECRET}")
    assert ingest(run, folder, secrets=[SECRET]).redacted == 1
    assert place.read_bytes() == b"token [REDACTED]"
    assert [row.redactions for row in rows(run).values() if row.path.endswith(f"kept/agent/{name}")] == [1]


def test_scrubbing_a_file_never_touches_the_one_beside_it(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    (plant(folder) / "log").write_text(SECRET)
    (plant(folder) / ".log.new").write_text("the agent's own")
    ingest(run, folder, secrets=[SECRET])
    assert (plant(folder) / ".log.new").read_text() == "the agent's own"


def test_one_trial_cannot_crowd_out_the_records_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "MAX_FILES", 50)
    run, folder = run_of(passing_run(3), tmp_path)
    for copy in ("kept/agent", "kept/artifacts", "job/task__AbCdEfG/artifacts"):
        (folder / "trials/1" / copy / "many").mkdir(parents=True)
        for number in range(120):
            (folder / "trials/1" / copy / "many" / f"{number}").write_bytes(b"x")
    ingest(run, folder)
    found = rows(run)
    for trial in (1, 2, 3):
        assert found[f"trials/{trial}/kept/verifier/reward.json"].state == "ok"
        assert found[f"trials/{trial}/observed.jsonl"].state == found[f"trials/{trial}/supervision.json"].state == "ok"


def test_a_secret_that_survives_is_quarantined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    leak(folder)

    def copy(self: Any, source: Any, sink: Any, patience: Any) -> int:
        sink.write(source.read(10_000_000))
        return 0

    monkeypatch.setattr("benchsite.lib.redaction.Scrubber.scrub_stream", copy)
    report = ingest(run, folder, secrets=[SECRET])
    artifact = rows(run)["trials/1/harbor.log"]
    assert report.quarantined == 3 and quarantined(run)
    assert artifact.state == ArtifactState.QUARANTINED and not artifact.readable
    with pytest.raises(store.NotReadable):
        store.open_stored(artifact)
    assert not any(b"SENTINEL" in path.read_bytes() for path in (tmp_path / "stored").rglob("*") if path.is_file())


def _with_log(log: bytes) -> RunCase:
    case = passing_run(1)
    transfer = case.trial.event("transfer", purpose="agent_logs", direction="download")
    list_files(transfer, [{"modified": 0, "path": "log", "sha256": sha256(log), "size": len(log)}])
    kept = {path: data for path, data in case.trial.kept.items() if not path.startswith("agent/")}
    case.trial.kept = kept | {"agent/log": log}
    return case


@pytest.mark.parametrize(
    "log",
    [b"&#115;" * 20_000, "".join(f"\\u{ord(sign):04x}" for sign in SECRET).encode() * 1_000, SECRET.encode() * 1_000],
    ids=["many escapes", "many secrets that are escaped", "many secrets"],
)
def test_a_file_that_takes_too_long_to_search_is_withheld_here_and_there(
    log: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "SEARCHED", 300_000)
    run, folder = run_of(_with_log(log), tmp_path)
    for _ in range(2):
        assert ingest(run, folder, secrets=[SECRET]).quarantined == 0
        row = rows(run)["trials/1/kept/agent/log"]
        assert (row.state, row.note, row.source_size) == ("truncated_source", ingesting.WITHHELD, len(log))
        assert stored(row) == (folder / row.path).read_bytes() == b"[REDACTED]"
        judgement = judge(read_run(folder), cleanup_clean=True, quarantined=quarantined(run))
        assert judgement.suite.verdict == "passed"  # the record of redactions holds what it was before


def test_what_other_trials_wrote_is_searched_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "SEARCHED", 300_000)
    run, folder = run_of(passing_run(2), tmp_path)
    for number in (1, 2):
        (folder / f"trials/{number}/kept/agent").mkdir(parents=True, exist_ok=True)
    (folder / "trials/1/kept/agent/log").write_bytes(b"&#115;" * 20_000)
    (folder / "trials/2/kept/agent/log").write_bytes(b"before " + SECRET.encode())
    ingest(run, folder, secrets=[SECRET])
    assert rows(run)["trials/1/kept/agent/log"].note == ingesting.WITHHELD
    assert stored(rows(run)["trials/2/kept/agent/log"]) == b"before [REDACTED]"


def test_no_log_takes_the_time_of_what_decides_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "SEARCHED", 0)
    run, folder = run_of(_with_log(b"a log"), tmp_path)
    ingest(run, folder, secrets=[SECRET])
    assert rows(run)["trials/1/kept/agent/log"].note == ingesting.WITHHELD
    whole = ("kept/verifier/reward.json", "job/result.json", "job/lock.json", "job/task__AbCdEfG/result.json")
    assert {rows(run)[f"trials/1/{path}"].state for path in whole} == {"ok"}
    assert judge(read_run(folder), cleanup_clean=True, quarantined=quarantined(run)).suite.verdict == "passed"


def test_copies_of_a_file_are_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    real = Scrubber.found_in_stream

    def count(self: Any, source: Any, patience: Any = None) -> bool:
        found = real(self, source, patience)
        searched.append(getattr(source, "size", 0))
        return found

    monkeypatch.setattr(Scrubber, "found_in_stream", count)
    run, folder = run_of(passing_run(1), tmp_path)
    for copy in ("kept/agent", "job/task__AbCdEfG/agent", "job/task__AbCdEfG/artifacts"):
        (folder / "trials/1" / copy).mkdir(parents=True, exist_ok=True)
        (folder / "trials/1" / copy / "log").write_bytes(b"x" * 12_345)
    ingest(run, folder, secrets=[SECRET])
    assert searched.count(12_345) == 1
    assert [stored(row) for path, row in rows(run).items() if path.endswith("/log")] == [b"x" * 12_345] * 3


def test_a_secret_in_a_file_name_is_quarantined_and_not_in_the_row(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    (plant(folder) / "sk-SENTINEL-name").write_bytes(b"x")
    for _ in range(2):
        ingest(run, folder, secrets=["sk-SENTINEL-name"])
    assert not [path for path in rows(run) if "SENTINEL" in path]
    assert [row.state for row in rows(run).values() if "[REDACTED]" in row.path] == ["quarantined"]


def test_a_readable_row_needs_its_hash_and_its_bytes(tmp_path: Path) -> None:
    run, _ = run_of(passing_run(1), tmp_path)
    with pytest.raises(IntegrityError), transaction.atomic():
        Artifact.objects.create(run=run, path="x", kind="other", state="ok")
    with pytest.raises(IntegrityError), transaction.atomic():
        Artifact.objects.create(run=run, path="x", kind="other", state="missing", public=True)


def test_a_stored_file_that_was_changed_is_not_given_out_whole(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    artifact = rows(run)["trials/1/kept/verifier/reward.json"]
    (tmp_path / "stored" / artifact.stored).write_bytes(b'{"reward": 0}')
    assert not store.verify(artifact)
    with pytest.raises(store.HashDiffers):
        stored(artifact)
    with pytest.raises(store.HashDiffers):
        list(store.range_chunks(artifact, 0, 3))


def test_a_range_is_given_out_exactly(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    artifact = rows(run)["trials/1/kept/verifier/reward.json"]
    assert b"".join(store.range_chunks(artifact, 2, 8)) == b"reward"
    assert b"".join(store.range_chunks(artifact, 10, 99)) == b" 1}"


def test_the_trajectory_gets_an_index_that_reads_its_windows(tmp_path: Path) -> None:
    case = passing_run(1)
    messages = [{"role": "system", "content": f"step {n}"} for n in range(120)]
    case.trial.kept["agent/mini-swe-agent.trajectory.json"] = json.dumps({"messages": messages}).encode()
    case.trial.recopy()
    run, folder = run_of(case, tmp_path)
    ingest(run, folder)
    found = rows(run)
    index = found["evidence/trials/1/trajectory.index"]
    assert (index.kind, index.trial) == ("trajectory_index", 1)
    source = found["trials/1/kept/agent/mini-swe-agent.trajectory.json"]
    with store.open_stored(source) as file, store.open_stored(index) as records:
        window = Trajectory(file, records).around(101)
    assert (window.first, window.total, window.steps[0].message.text) == (101, 120, "step 100")


def finished(run: Run, folder: Path, cleanup: Cleanup = Cleanup.CLEAN) -> Run:
    """The run ended as the engine ends it."""
    lifecycle.claim(run.key, worker=run.worker.name, identity=Process(), host="host")
    facts = read_run(folder, Expected(run.key, run.spec_sha256))
    for trial in facts.trials:
        lifecycle.record_trial(run.key, trial.trial, trial_end(trial, classify_trial(trial)))
    lifecycle.enter_stage(run.key, Stage.CLEANUP)
    verdict = judge(facts, cleanup_clean=cleanup is Cleanup.CLEAN).suite.verdict
    state = RunState.FINISHED if verdict in LEGAL_ENDINGS[RunState.FINISHED] else RunState.FAILED
    lifecycle.finish(run.key, state=state, verdict=verdict, cleanup=cleanup, failure=None)
    return Run.objects.get(pk=run.pk)


def test_a_finished_run_is_published_and_audits_clean(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(2), tmp_path)
    ingest(run, folder)
    run = finished(run, folder)
    facts = read_run(folder)
    suite = publish(run, facts, judge(facts, cleanup_clean=run.cleanup == "clean"))
    assert suite["verdict"]["value"] == "passed"
    found = rows(run)
    assert found["evidence/suite.json"].public and found["evidence/provenance.json"].public
    assert json.loads(stored(found["evidence/suite.json"])) == suite
    reference = {"path": "trials/1/kept/verifier/reward.json", "kind": "reward", "state": "ok", "size": 13}
    assert {**reference, "sha256": sha256(b'{"reward": 1}')} in suite["trials"][0]["evidence"]
    assert json.loads(run.trials.get(ordinal=1).result)["bucket"] == "passed"
    report = audit(run)
    assert report.clean and report.trials == 2 and report.files == len(found)


def test_a_run_that_is_published_again_after_an_upgrade_of_its_worker_keeps_its_provenance(tmp_path: Path) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    run = finished(run, folder)
    facts = read_run(folder)
    publish(run, facts, judge(facts, cleanup_clean=True))
    before = stored(rows(run)["evidence/provenance.json"])
    Worker.objects.filter(pk=run.worker.pk).update(report=json.dumps({"engine": {"version": "99.0"}}))
    record_image_locks(run.worker.name, {"agent": {"image_id": "sha256:" + "9" * 64, "recipe_sha256": "9" * 64}})
    again = Run.objects.get(pk=run.pk)
    publish(again, facts, judge(facts, cleanup_clean=True))
    assert stored(rows(again)["evidence/provenance.json"]) == before
    assert json.loads(before)["observed"]["engine"]["version"] == "29.6.1"


@pytest.mark.parametrize("what", ["changed", "lost", "result", "count"])
def test_an_audit_names_what_differs(tmp_path: Path, what: str) -> None:
    run, folder = run_of(passing_run(2), tmp_path)
    ingest(run, folder)
    run = finished(run, folder)
    artifact = rows(run)["trials/1/kept/verifier/reward.json"]
    path = tmp_path / "stored" / artifact.stored
    if what == "changed":
        path.write_bytes(b'{"reward": 0}')
    elif what == "lost":
        path.unlink()
    elif what == "result":
        Artifact.objects.filter(run=run, path="trials/2/supervision.json").delete()
    report = audit(run)
    words = {(difference.what, difference.where) for difference in report.differences}
    expected = {
        "changed": {("file_differs", artifact.path), ("result_differs", "trial 1")},
        "lost": {("file_missing", artifact.path), ("result_differs", "trial 1")},
        "result": {("result_differs", "trial 2"), ("count_differs", "error")},
        "count": set(),
    }[what]
    assert expected <= words and (report.clean == (what == "count"))


def published(tmp_path: Path) -> Run:
    run, folder = run_of(passing_run(2), tmp_path)
    ingest(run, folder)
    run = finished(run, folder)
    facts = read_run(folder)
    publish(run, facts, judge(facts, cleanup_clean=run.cleanup == "clean"))
    return run


def test_an_audit_names_every_row_that_says_otherwise_than_what_was_confirmed_and_published(tmp_path: Path) -> None:
    """Whoever writes to the database by hand may drop its triggers first."""
    run = published(tmp_path)
    assert audit(run).clean
    trial, private = run.trials.get(ordinal=1), rows(run)["trials/1/kept/verifier/reward.json"]
    altered: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("public_differs", private.path, private, {"public": True}),
        ("task_differs", "trial 1", trial, {"task_name": "another"}),
        ("task_differs", "trial 1", trial, {"task_checksum": "0" * 64}),
        ("published_differs", "trial 1", trial, {"result": "{}"}),
        ("published_differs", "trial 1", trial, {"bucket": "failed", "reward": 0}),
        ("verdict_differs", "verdict", run, {"verdict": "failed"}),
        ("spec_differs", "spec", run, {"spec": run.spec.replace("scripted", "another")}),
    ]
    with connection.cursor() as cursor:
        for guard in GUARDS:
            of_table = "" if connection.vendor == "sqlite" else f" ON {guard.table}"
            cursor.execute(f"DROP TRIGGER guard_{guard.name}{of_table}")
    for what, where, row, values in altered:
        before = {name: getattr(row, name) for name in values}
        type(row).objects.filter(pk=row.pk).update(**values)
        found = {(found.what, found.where) for found in audit(Run.objects.get(pk=run.pk)).differences}
        assert (what, where) in found, values
        type(row).objects.filter(pk=row.pk).update(**before)
    assert audit(Run.objects.get(pk=run.pk)).clean


@pytest.mark.parametrize("cleanup", [Cleanup.CLEAN, Cleanup.FAILED])
def test_a_verdict_that_does_not_follow_from_the_files_is_a_difference_also_where_it_was_published(
    tmp_path: Path, cleanup: Cleanup
) -> None:
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    run = finished(run, folder, cleanup)
    facts = read_run(folder)
    publish(run, facts, judge(facts, cleanup_clean=cleanup is Cleanup.CLEAN))
    assert audit(run).clean
    run.verdict = "failed"
    publish(run, facts, judge(facts, cleanup_clean=cleanup is Cleanup.CLEAN))
    differences = [(found.what, found.where, found.expected) for found in audit(run).differences]
    assert differences == [("verdict_differs", "derived verdict", "failed")]


def test_a_file_that_is_called_removed_hides_no_result_from_an_audit(tmp_path: Path) -> None:
    run = published(tmp_path)
    path = "trials/1/job/job.log"
    Artifact.objects.create(run=run, path=path, kind="harbor_log", state="removed")
    report = audit(run)
    assert [(found.what, found.where) for found in report.differences] == [("removed_unrecorded", path)]


def test_a_stored_file_that_no_row_names_goes_with_the_next_ingest_of_its_run(tmp_path: Path) -> None:
    """The process died, or its disk was full, between the storage and the register."""
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    stored_before = {artifact.stored for artifact in rows(run).values() if artifact.stored}
    left = tmp_path / "stored" / run.key / "left-by-one-that-died"
    left.write_bytes(b"private")
    elsewhere = tmp_path / "stored" / ("0" * 32) / "other"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"of another run")
    ingest(run, folder)
    assert not left.exists() and elsewhere.exists()
    assert {artifact.stored for artifact in rows(run).values() if artifact.stored} == stored_before
    assert all((tmp_path / "stored" / name).exists() for name in stored_before)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Nothing was compared then, and an audit that found nothing to compare would call every result another one."""
    run, folder = run_of(passing_run(1), tmp_path)
    ingest(run, folder)
    run = finished(run, folder)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(number, "no")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(NoRoom):
        audit(run, scratch=tmp_path)


OWN = (
    "spec.json",
    "run.json",
    "journal.json",
    "ledger.jsonl",
    "observed.jsonl",
    "supervision.json",
    "environment.json",
)


def test_a_genuine_pass_of_an_endpoint_whose_dummy_key_is_its_name_is_passed(tmp_path: Path) -> None:
    """Attack 6e, 6f: an Ollama server called ollama, with its usual key."""
    case = passing_run()
    case.spec["endpoint"]["name"] = "ollama"
    run, folder = run_of(case, tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    report = ingest(run, folder, secrets=["ollama"])
    assert (report.redacted, report.quarantined, report.secrets_not_searched) == (0, 0, 1)
    assert {path: path.read_bytes() for path in before} == before
    facts = read_run(folder)
    assert judge(facts, cleanup_clean=True, quarantined=quarantined(run)).suite.verdict == "passed"
    publish(run, facts, judge(facts, cleanup_clean=True), secrets=["ollama"])
    assert not quarantined(run)


@pytest.mark.parametrize(
    "key",
    [
        "openai", "harbor", "python", "docker", "reward", "scripted", "scripted-positive", "Scripted-Positive",
        "172.17.0.1", "environment-smoke", "mini-swe-agent", "trajectory", "verifier", "exception_info", "task_name",
        "verifier_result", "mini-swe-agent.trajectory.json", "ledger-totals", "reachable", "supervision", "settled",
        "kept/agent", "kept/artifacts/", "removed-",
    ],
)  # fmt: skip
def test_no_key_that_is_a_word_of_a_real_run_changes_what_it_amounts_to(key: str, tmp_path: Path) -> None:
    """Attack 6e, 6f"""
    folder = tmp_path / "run"
    shutil.copytree(REAL, folder)
    run = row_of((folder / "spec.json").read_bytes(), 3)
    own = {path: path.read_bytes() for path in folder.rglob("*") if path.name in OWN}
    ingest(run, folder, secrets=[key])
    assert {path: path.read_bytes() for path in own} == own
    judgement = judge(read_run(folder), cleanup_clean=True, quarantined=quarantined(run))
    assert [trial.code for trial in judgement.trials] == ["passed.reward_1"] * 3
    assert judgement.suite.verdict == "passed"


def test_a_secret_in_a_record_of_our_own_changes_nothing_of_it_and_keeps_it_from_everybody(tmp_path: Path) -> None:
    """Whoever writes our records keeps secrets out; what slips through is no reason to break what is compared."""
    case = passing_run(1)
    event = case.trial.event("transfer", direction="download", path="/app/output")
    event.update(outcome="partial", code="transfer.name")
    event.update(refusals=[{"path": SECRET, "code": "transfer.name"}], refused={"transfer.name": 1})
    run, folder = run_of(case, tmp_path)
    record = folder / "trials/1/observed.jsonl"
    before = record.read_bytes()
    assert ingest(run, folder, secrets=[SECRET]).quarantined == 1
    assert record.read_bytes() == before and not rows(run)["trials/1/observed.jsonl"].readable
    assert classify_trial(read_run(folder).trials[0]).code == "passed.reward_1" and quarantined(run)


def test_a_secret_in_one_of_many_files_leaves_the_others_compared(tmp_path: Path) -> None:
    """Attack 8: of a copy of more files than its record names, one hash stands for all."""
    case = passing_run(1)
    root = "artifacts/app/output"
    files = {f"{number:03}.txt": b"x" for number in range(250)} | {"zz.txt": f"my bearer: {SECRET}".encode()}
    case.trial.kept.update({f"{root}/{name}": data for name, data in files.items()})
    case.trial.recopy()
    run, folder = run_of(case, tmp_path)
    assert ingest(run, folder, secrets=[SECRET]).redacted == 1
    whole = f"kept.trials/1/kept/{root}"
    assert next(check.ok for check in read_run(folder).trials[0].checks if check.name == whole)
    (folder / f"trials/1/kept/{root}/249.txt").write_bytes(b"y")  # one that the record does not name
    assert not next(check.ok for check in read_run(folder).trials[0].checks if check.name == whole)
