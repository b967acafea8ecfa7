"""What a run amounts to is signed over what is stored, once; what changes afterwards is explained."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from benchsite.lib.folder import Folder
from evidence.management.commands.verify import rederive
from evidence.models import Artifact, RunStatement, SigningKey, StatementReason
from evidence.origin.archive import Archive
from evidence.origin.envelope import Envelope, read_envelope, write_envelope
from evidence.origin.public_keys import PublicKey
from evidence.origin.statement import (
    RUN_ENVELOPE,
    SUITE_ENVELOPE,
    SUITE_PATH,
    Statement,
    read_statement,
    write_statement,
)
from evidence.origin.verifying import Verification, verify
from evidence.register import keys, signing
from evidence.register.auditing import audit
from evidence.register.export import export
from evidence.register.ingest import ingest
from evidence.register.judging import RegisterJudge
from evidence.register.publishing import publish, quarantined
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, read_run
from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Verdict
from runs.services import lifecycle
from runs.services.access import Role
from tests.evidence.folders import passing_run, sha256
from tests.evidence.rows import run_of
from tests.runs.rows import PASSED, Process, person

pytestmark = pytest.mark.django_db
SECRET = "sk-SENTINEL-12345"


def over(run: Run) -> None:
    """The run's row as its end leaves it."""
    lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    for number in (1, 2):
        lifecycle.record_trial(run.pk, number, PASSED)
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN)
    run.refresh_from_db()


@pytest.fixture
def place(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    settings.DATA = tmp_path / "data"
    for name in ("BENCHSITE_WORKER_KEY", "BENCHSITE_SITE_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    return tmp_path


def make_keys(*roles: str) -> None:
    for role in roles:
        keys.make(user=person("somebody", Role.OPERATOR), role=role)


def ended(place: Path, *roles: str) -> tuple[Run, Path]:
    make_keys(*roles)
    run, folder = run_of(passing_run(2), place)
    run.cleanup = Cleanup.CLEAN
    end(run, folder)
    return run, folder


def end(run: Run, folder: Path, secrets: tuple[str, ...] = ()) -> RunStatement | None:
    """What `RegisterJudge` does at a run's end, without the run's states."""
    ingest(run, folder, secrets=secrets)
    facts = read_run(folder, Expected(run.key, run.spec_sha256))
    judgement = judge(facts, cleanup_clean=True, quarantined=quarantined(run))
    suite = publish(run, facts, judgement, secrets=secrets)
    verdict, hidden = suite["verdict"]["value"], quarantined(run)
    return signing.sign_run(run, folder, facts, judgement, verdict=verdict, quarantined=hidden, secrets=secrets)


def trusted() -> list[PublicKey]:
    return [keys.public_key(row) for row in SigningKey.objects.all()]


def verified(folder: Path) -> Verification:
    return verify(Folder(folder), trusted(), rederive=rederive)


def statement_in(folder: Path) -> Statement:
    return read_statement(read_envelope((folder / RUN_ENVELOPE).read_bytes()).payload)


def test_folder_export_and_public_export_verify(place: Path) -> None:
    run, folder = ended(place, "worker", "site")
    found = verified(folder)
    assert found.holds, found.differences
    assert found.rederivable.holds
    assert found.statement is not None
    assert (found.statement.verdict, found.statement.run_id) == ("passed", run.key)
    whole = Archive(BytesIO(b"".join(export(run).chunks)))
    found = verify(whole, trusted(), rederive=rederive)
    assert found.holds, found.differences
    assert found.rederivable.holds
    index = [f"evidence/trials/{trial}/trajectory.index" for trial in (1, 2)]
    assert found.not_covered == ["NOT-INCLUDED.txt", "SHA256SUMS", *index]
    public = Archive(BytesIO(b"".join(export(run, public_only=True).chunks)))
    found = verify(public, trusted(), rederive=rederive)
    assert found.holds, found.differences
    assert found.rederivable.holds is None
    assert [row.reason for row in RunStatement.objects.filter(run=run)] == ["ended", "ended"]


def test_the_signature_is_over_what_is_stored(place: Path) -> None:
    run, folder = ended(place, "worker")
    files = {file.path: file for file in statement_in(folder).files}
    rows = {row.path: row for row in Artifact.objects.filter(run=run)}
    assert len(files) > 20
    assert {path: file.sha256 for path, file in files.items()} == {path: rows[path].sha256 for path in files}
    assert statement_in(folder).published[SUITE_PATH] == rows[SUITE_PATH].sha256


def test_without_a_key_the_run_works_and_says_that_it_is_not_signed(place: Path) -> None:
    run, folder = ended(place)
    row = RunStatement.objects.get(run=run)
    assert (row.key, row.unsigned) == (None, "signing.no_key")
    found = verified(folder)
    assert (found.consistent.holds, found.authentic.holds, found.rederivable.holds) == (True, False, True)
    assert [signer.code for signer in found.signers] == ["signature.none"]
    (check,) = RegisterJudge().checks()
    assert (check.passed, check.level, check.code) == (False, "note", "signing.no_key")
    assert "signing_key make" in check.remedy
    make_keys("worker")
    (check,) = RegisterJudge().checks()
    assert check.passed


def test_an_end_that_is_made_again_keeps_its_statement(place: Path) -> None:
    run, folder = ended(place, "worker", "site")
    before = (folder / RUN_ENVELOPE).read_bytes(), (folder / SUITE_ENVELOPE).read_bytes()
    end(run, folder)
    assert ((folder / RUN_ENVELOPE).read_bytes(), (folder / SUITE_ENVELOPE).read_bytes()) == before
    assert RunStatement.objects.filter(run=run).count() == 2


@pytest.mark.parametrize("step", ["_write", "register_files", "_record", "_countersign", "register_bytes"])
@pytest.mark.parametrize("changes", [False, True])
def test_killed_at_any_step_the_end_is_made_again_and_every_statement_is_explained(
    step: str, changes: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_keys("worker", "site")
    run, folder = run_of(passing_run(1), place)
    run.cleanup = Cleanup.CLEAN
    calls = 0

    def killed(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(signing, step, killed)
        end(run, folder)
    assert calls == 1
    left = read_envelope((folder / RUN_ENVELOPE).read_bytes()) if (folder / RUN_ENVELOPE).exists() else None
    if changes:  # recovery writes into the run's record that it was interrupted
        record = json.loads((folder / "run.json").read_bytes())
        (folder / "run.json").write_text(json.dumps({**record, "interrupted": True}))
    end(run, folder)
    found = verified(folder)
    assert found.holds, found.differences
    stated = RunStatement.objects.filter(run=run, role="worker")
    last = statement_in(folder)
    if left is not None and changes:
        assert last.replaces == (left.payload_sha256,)
        assert {row.payload_sha256 for row in stated} == {left.payload_sha256, stated[0].payload_sha256}
        assert stated[0].reason == StatementReason.AGAIN
    else:
        assert (last.replaces, len(stated)) == ((), 1)
        assert left is None or left == read_envelope((folder / RUN_ENVELOPE).read_bytes())


@pytest.mark.parametrize("cleanup", [Cleanup.PENDING, Cleanup.DECLARED])
def test_a_cleanup_that_no_verdict_is_given_with_is_never_signed(cleanup: Cleanup, place: Path) -> None:
    make_keys("worker")
    run, folder = run_of(passing_run(1), place)
    run.cleanup = cleanup
    with pytest.raises(KeyError):
        end(run, folder)
    assert not (folder / RUN_ENVELOPE).exists()


def test_a_later_cleanup_is_stated_anew_and_names_what_it_replaces(place: Path) -> None:
    run, folder = ended(place, "worker", "site")
    first = read_envelope((folder / RUN_ENVELOPE).read_bytes()).payload_sha256
    (folder / "journal.json").write_bytes((folder / "journal.json").read_bytes() + b"\n")
    assert not verified(folder).holds
    RegisterJudge().cleaned(run, folder)
    found = verified(folder)
    assert found.holds, found.differences
    assert statement_in(folder).replaces == (first,)
    assert verify(Archive(BytesIO(b"".join(export(run).chunks))), trusted(), rederive=rederive).holds
    RegisterJudge().cleaned(run, folder)
    assert RunStatement.objects.filter(run=run, role="worker").count() == 2


@pytest.mark.parametrize("path", ["ledger.jsonl", "trials/1/kept/verifier/reward.json", "trials/1/more", SUITE_PATH])
def test_files_that_changed_since_the_end_are_never_signed(path: str, place: Path) -> None:
    """Whoever can write into the folder does not get a signature by asking for a cleanup."""
    run, folder = ended(place, "worker")
    before = (folder / RUN_ENVELOPE).read_bytes()
    (folder / path).write_bytes(b"changed")
    (folder / "journal.json").write_bytes((folder / "journal.json").read_bytes() + b"\n")
    for reason in (StatementReason.CLEANUP, StatementReason.ASKED):
        signed = signing.sign_again(run, folder, reason)
        assert signed is None or path == SUITE_PATH, "of what is published the register's copy counts"
        assert path in {each.path for each in verified(folder).differences}
    assert (folder / RUN_ENVELOPE).read_bytes() == before or path == SUITE_PATH


def test_a_verdict_that_the_row_does_not_have_is_never_signed(place: Path) -> None:
    run, folder = ended(place)
    make_keys("worker")
    over(run)
    stated = replace(statement_in(folder), verdict="failed")
    payload = write_statement(stated)
    (folder / RUN_ENVELOPE).write_bytes(write_envelope(Envelope(payload, ())))
    assert signing.sign_again(run, folder, StatementReason.ASKED) is None


def test_the_site_signs_anew_when_its_key_was_revoked_and_lays_its_statement_down(place: Path) -> None:
    run, folder = ended(place, "worker", "site")
    over(run)
    (folder / SUITE_ENVELOPE).unlink()
    assert signing.countersign(run, folder=folder) is None
    first = (folder / SUITE_ENVELOPE).read_bytes()
    user = person("somebody", Role.OPERATOR)
    keys.revoke(user=user, row=SigningKey.objects.get(role="site"), reason="lost")
    keys.rotate(user=user, role="site")
    assert signing.countersign(run, folder=folder) is not None
    assert (folder / SUITE_ENVELOPE).read_bytes() != first
    assert verified(folder).holds


def test_nothing_that_was_signed_is_replaced_by_what_is_not(place: Path) -> None:
    run, folder = ended(place, "worker")
    before = (folder / RUN_ENVELOPE).read_bytes()
    keys.key_file("worker").unlink()
    (folder / "journal.json").write_bytes((folder / "journal.json").read_bytes() + b"\n")
    RegisterJudge().cleaned(run, folder)
    assert (folder / RUN_ENVELOPE).read_bytes() == before
    assert [each.path for each in verified(folder).differences] == ["journal.json"]


def test_a_run_that_ended_without_a_key_can_be_signed_later(place: Path, settings: Any) -> None:
    run, folder = ended(place)
    make_keys("worker")
    assert signing.sign_again(run, folder, StatementReason.ASKED) is not None
    assert verified(folder).holds
    last = RunStatement.objects.filter(run=run, role="worker").first()
    assert last is not None
    assert last.reason == StatementReason.ASKED
    assert last.key is not None


def test_a_run_of_a_revoked_key_is_signed_anew_by_the_next_one(place: Path) -> None:
    run, folder = ended(place, "worker")
    user = person("somebody", Role.OPERATOR)
    keys.revoke(user=user, row=SigningKey.objects.get(), reason="lost")
    assert not verified(folder).holds
    keys.rotate(user=user, role="worker")
    signing.sign_again(run, folder, StatementReason.ASKED)
    assert verified(folder).holds


def test_a_statement_counts_only_while_its_key_did(place: Path) -> None:
    _, folder = ended(place, "worker")
    SigningKey.objects.update(retired_at=timezone.now() - timedelta(days=1), not_before=timezone.now() - timedelta(2))
    found = verified(folder)
    assert found.consistent.holds
    assert [signer.code for signer in found.signers] == ["key.retired"]


def test_the_site_countersigns_when_it_gives_out_what_a_worker_elsewhere_published(place: Path) -> None:
    run, _ = ended(place, "worker")
    assert not Artifact.objects.filter(run=run, path=SUITE_ENVELOPE).exists()
    make_keys("site")
    export(run, public_only=True)
    assert not Artifact.objects.filter(run=run, path=SUITE_ENVELOPE).exists(), "the run has not ended"
    over(run)
    public = Archive(BytesIO(b"".join(export(run, public_only=True).chunks)))
    assert verify(public, trusted()).holds
    export(run, public_only=True)
    assert RunStatement.objects.filter(run=run, role="site").count() == 1


def test_the_site_signs_what_the_rows_say_and_not_what_the_storage_was_made_to_say(place: Path) -> None:
    run, folder = ended(place, "worker")
    make_keys("site")
    over(run)
    stated = Artifact.objects.get(run=run, path=RUN_ENVELOPE)
    (place / "stored" / stated.stored).write_bytes((folder / RUN_ENVELOPE).read_bytes().replace(b"A", b"B"))
    row = signing.countersign(run, folder=folder)
    assert row is not None
    site = read_statement(read_envelope((folder / SUITE_ENVELOPE).read_bytes()).payload)
    assert (site.verdict, site.counts["passed"]) == ("passed", 2)
    suite = Artifact.objects.get(run=run, path=SUITE_PATH)
    (place / "stored" / suite.stored).write_bytes(b"{}")
    assert site.published[SUITE_PATH] == suite.sha256


def test_an_audit_finds_what_is_not_as_it_was_stated_and_who_may_not_have_signed(place: Path) -> None:
    run, _ = ended(place, "worker", "site")
    over(run)

    def found() -> set[tuple[str, str]]:
        return {
            (each.what, each.found)
            for each in audit(run).differences
            if "statement" in each.what or "sign" in each.what
        }

    assert found() == set()
    key = SigningKey.objects.get(role="worker")
    keys.revoke(user=person("somebody", Role.OPERATOR), row=key, reason="lost")
    assert found() == {("signature_differs", "key.revoked")}
    SigningKey.objects.update(revoked_at=None)
    artifact = Artifact.objects.get(run=run, path="journal.json")
    (place / "stored" / artifact.stored).write_bytes(b"{}")
    artifact.size, artifact.sha256 = 2, sha256(b"{}")
    artifact.save()
    assert found() == {("statement_differs", "file.differs")}, "although the row says the same as the storage"


def test_no_secret_is_in_a_statement_and_a_name_that_holds_one_is_in_none(place: Path) -> None:
    make_keys("worker")
    case = passing_run(1)
    case.trial.kept[f"agent/{SECRET}.txt"] = b"x"
    case.trial.recopy()
    run, folder = run_of(case, place)
    run.cleanup = Cleanup.CLEAN
    assert end(run, folder, (SECRET,)) is None
    assert not (folder / RUN_ENVELOPE).exists()


def test_the_command_verifies_by_its_exit_code(place: Path, tmp_path: Path) -> None:
    run, folder = ended(place, "worker", "site")
    out = StringIO()
    call_command("signing_key", "list", "--json", stdout=out)
    (tmp_path / "keys.json").write_text(out.getvalue())
    archive = tmp_path / "run.zip"
    archive.write_bytes(b"".join(export(run).chunks))

    def called(what: Path, *more: str) -> tuple[int, Any]:
        out = StringIO()
        arguments = ("verify", str(what), "--key", str(tmp_path / "keys.json"), "--json", *more)
        try:
            call_command(*arguments, stdout=out, stderr=StringIO())
        except SystemExit as stop:
            return int(str(stop.code)), json.loads(out.getvalue())
        return 0, json.loads(out.getvalue())

    for what in (folder, archive, folder / SUITE_PATH):
        code, document = called(what)
        assert (code, document["holds"], document["verdict"]) == (0, True, "passed"), document
    assert called(folder, "--run-id", run.key)[0] == 0
    assert called(folder, "--run-id", "0" * 32)[0] == 1
    assert called(folder, "--run-id", "nonsense")[0] == 2
    (folder / "ledger.jsonl").write_bytes(b"")
    code, document = called(folder)
    assert code == 1
    assert document["differences"][0] == {
        "code": "file.differs", "path": "ledger.jsonl", "sentence": "It is another file than the listed one.",
    }  # fmt: skip
    with zipfile.ZipFile(archive, "a") as changed:
        changed.writestr("../x", b"x")
    assert called(archive) == (2, called(archive)[1])
    assert called(archive)[1]["code"] == "archive.name"
    assert called(place / "absent")[1]["code"] == "input.no_evidence"
    (tmp_path / "keys.json").write_text("{}")
    assert called(folder)[1]["code"] == "key.unreadable"
