"""What `--json` prints follows the schemas that ship with the product, and their shapes do not change by accident."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evidence.models import Artifact
from evidence.origin.statement import RUN_ENVELOPE
from evidence.register import keys
from evidence.register.ingest import ingest
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.engine.ending.recovery import RecoveryReport
from runs.management.commands import smoke
from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Verdict
from runs.services import lifecycle, queue, runlog, transitions, workers
from runs.smoke.scenarios import ScenarioResult
from tests.commands.calling import Result, command
from tests.commands.schemas import GOLDEN, names, schema, shapes, validated
from tests.documents import samples
from tests.evidence.folders import passing_run
from tests.evidence.rows import run_of
from tests.origin.signed import put, signed_run, stated
from tests.runs.rows import ERROR, PASSED, Process, person, run_row
from tests.runs.sites import SHARED_UID, Site, ready_site, report

_ADA = ("--user", "ada")


@pytest.mark.parametrize("name", names())
def test_each_schema_is_one_and_closed(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    kind, _, version = name.partition(".")
    assert found["properties"]["schema"] == {"const": f"benchsite.{kind}/{version}"}
    assert found["additionalProperties"] is False and found["description"]


def test_no_shape_has_changed() -> None:
    """A changed shape is a new version: add its file beside the old one. Then renew the golden list (schemas.py)."""
    assert list(shapes()) == GOLDEN.read_text().splitlines()


def shown(result: Result, code: int = 0) -> dict[str, Any]:
    assert result.code == code, result
    return validated(result.json)


@pytest.fixture(autouse=True)
def _no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "put", lambda run_id, worker, limit_s: None)
    monkeypatch.setattr(queue, "put_cleanup", lambda run_id, worker: None)
    monkeypatch.setattr(queue, "put_endpoint_test", lambda *_, **__: None)


@pytest.fixture
def site(db: None) -> Site:
    return ready_site()


@pytest.fixture
def kept(db: None, settings: Any, tmp_path: Path) -> tuple[Run, Path]:
    """A run with its evidence in a storage of its own, and its folder."""
    options = {"location": tmp_path / "stored"}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    run, folder = run_of(passing_run(1), tmp_path)
    (folder / "trials/1/kept/agent/link").symlink_to("/etc/passwd")
    ingest(run, folder)
    return run, folder


@pytest.mark.django_db
class TestRuns:
    def ended(self) -> Run:
        run = run_row()
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        for ordinal, end in enumerate((PASSED, PASSED, ERROR), 1):
            lifecycle.record_trial(run.pk, ordinal, end)
        entry = transitions.ResourceState(nonce="n", kind="container", role="agent", stage="created")
        lifecycle.mirror_journal(run.pk, [entry])
        failure = transitions.Failure(stage="trial", failure_class="grading", code="grading.reward_missing")
        lifecycle.finish(run.pk, state=RunState.FAILED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED, failure=failure)
        return Run.objects.get(pk=run.pk)

    def test_of_one_run_in_every_state(self) -> None:
        queued, ended = run_row(), self.ended()
        assert shown(command("status", queued.key, "--json"))["exit_code"] is None
        assert len(shown(command("status", ended.key, "--json"), 6)["owned"]) == 1
        person("vera", "viewer")
        assert "owned" not in shown(command("status", ended.key, "--json", "--user", "vera"), 6)
        assert len(shown(command("status", "--json"))["runs"]) == 2

    def test_of_start_cancel_and_cleanup(self, site: Site) -> None:
        started = shown(command("start", "--endpoint", "scripted", "--json"))
        assert shown(command("cancel", started["run"], "--wait", "--json"), 5)["outcome"] == "cancelled"
        assert shown(command("cancel", started["run"], "--json"))["outcome"] == "ended"
        assert shown(command("cleanup", self.ended().key, "--json"))["verdict"] == "error"

    def test_of_logs(self) -> None:
        run = run_row()
        assert shown(command("logs", run.key, "--json"))["lines"] == []
        runlog.append_log(run.pk, [runlog.Line(source="engine", text="a\x1b[31m", at=run.created_at)])
        assert shown(command("logs", run.key, "--json"))["next_cursor"] == 1

    def test_of_host_lost_and_recover(self, monkeypatch: pytest.MonkeyPatch) -> None:
        person("ada", "admin")
        run = run_row()
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        assert shown(command("host_lost", "local", *_ADA, "--json"), 3)["runs"] == [run.key]
        assert shown(command("host_lost", "local", *_ADA, "--json", "--yes"))["declared"] is True
        found = RecoveryReport(interrupted=[run.key], problems=["something"])
        monkeypatch.setattr("runs.engine.ending.recovery.recover", lambda *_, **__: found)
        assert shown(command("recover", "--json"), 6)["interrupted"] == [run.key]

    def test_of_a_run_exactly(self) -> None:
        run = self.ended()
        document = shown(command("status", run.key, "--json"), 6)
        text = json.dumps(document, indent=2, sort_keys=True).replace(run.key, "RUN")
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]{15}Z", "TIME", text)
        assert text + "\n" == (GOLDEN.parent / "run.json").read_text()


@pytest.mark.django_db
class TestTokens:
    def test_of_one_that_is_made_and_revoked_and_of_all(self) -> None:
        made = shown(command("token", "create", "ci", "--scope", "read", "--scope", "run", "--days", "3", "--json"))
        assert (made["scopes"], made["state"], made["of"]) == (["read", "run"], "active", "cli")
        assert made["token"].startswith("bst_")
        assert shown(command("token", "list", "--json"))["tokens"][0]["key"] == made["key"]
        revoked = shown(command("token", "revoke", made["key"], "--json"))
        assert (revoked["state"], revoked["token"]) == ("revoked", None)


class TestPreviews:
    def test_of_a_preview_that_can_start_and_of_one_that_cannot(self, site: Site) -> None:
        assert shown(command("preview", "--endpoint", "scripted", "--json"))["blocked"] is False
        workers.record_harness_lock("local", {})
        document = shown(command("preview", "--endpoint", "scripted", "--json"), 3)
        assert document["spec"] is None and document["blocked"] is True

    def test_of_a_worker_that_served(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("runs.engine.worker.serve", lambda *_, **__: None)
        document = command("worker", "--burst", "--json").json  # the same as of --report, which a real one is held to
        assert document["schema"] == "benchsite.worker/v1" and document["report"]["network_namespace"]

    def test_of_endpoints_and_their_tests(self, site: Site) -> None:
        assert [one["name"] for one in shown(command("endpoint", "list", "--json"))["endpoints"]] == ["scripted"]
        assert shown(command("endpoint", "test", "scripted", "--json"))["state"] == "waiting"
        assert len(shown(command("endpoint", "show", "scripted", "--json"))["tests"]) == 1

    def test_of_stopping_an_endpoint_and_allowing_it_again(self, site: Site) -> None:
        person("ada", "admin")
        stopped = shown(command("endpoint", "stop", "scripted", "--reason", "a test", "--json", *_ADA))
        assert stopped["stopped"]["by"] == "ada"
        assert shown(command("endpoint", "allow", "scripted", "--json", *_ADA))["stopped"] is None

    def test_of_registering_and_retiring_an_endpoint(self, site: Site, tmp_path: Path) -> None:
        person("ada", "admin")
        record = tmp_path / "record.json"
        record.write_text(json.dumps(samples.endpoint_v2()))
        assert shown(command("endpoint", "register", str(record), "--json", *_ADA))["new"] is True
        assert shown(command("endpoint", "register", str(record), "--json", *_ADA))["new"] is False
        assert shown(command("endpoint", "retire", "local-model", "--json", *_ADA))["retired"] is True
        record.write_text("{}")
        assert shown(command("endpoint", "register", str(record), "--json", *_ADA), 2)["valid"] is False

    def test_of_stored_checks(self, site: Site) -> None:
        assert shown(command("preflight", "--stored", "--json"))["stored"] is True
        assert shown(command("preflight", "--stored", "--endpoint", "scripted", "--json"))["spec_sha256"]

    def test_of_refusals(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        problems = shown(command("start", "--endpoint", "scripted", "--max-steps", "99", "--json"), 2)["problems"]
        assert [problem["path"] for problem in problems] == ["max_steps"]
        earlier = shown(command("preview", "--endpoint", "scripted", "--json"))
        report(sandbox=SHARED_UID)
        refused = shown(command("start", "--endpoint", "scripted", "--json"), 3)
        assert refused["accept"] == ["limit harness_uid"]
        chosen = ["--preview", earlier["preview"], "--spec-sha256", earlier["spec_sha256"]]
        differences = shown(command("start", *chosen, "--json"), 3)["differences"]
        assert [each["path"] for each in differences] == ["worker.capability_sha256"]
        report(limits=[])
        assert shown(command("start", "--endpoint", "scripted", "--json"), 3)["checks"]
        assert shown(command("status", "0" * 32, "--json"), 2)["code"] == "input.unknown_run"
        assert shown(command("cancel", "x", "--user", "nobody", "--json"), 2)["code"] == "input.unknown_user"

    def test_of_an_unexpected_error_which_never_looks_like_a_failed_evaluation(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("runs.management.commands.preview.preview_of", lambda *_: 1 / 0)
        result = command("preview", "--json")
        assert shown(result, 4)["code"] == "command.failed"
        assert "ZeroDivisionError" in result.err


class TestEvidence:
    def test_of_the_register_and_of_a_file(self, kept: tuple[Run, Path], tmp_path: Path) -> None:
        run, _ = kept
        files = shown(command("evidence", run.key, "--json"))["files"]
        assert {file["state"] for file in files} == {"ok", "unsafe_type"}
        found = next(file["id"] for file in files if file["id"])
        assert shown(command("evidence", run.key, "--get", found, "--output", str(tmp_path / "f"), "--json"))["file"]

    def test_of_an_export_and_an_audit(self, kept: tuple[Run, Path], tmp_path: Path) -> None:
        run, _ = kept
        person("ada", "admin")
        assert shown(command("export", run.key, str(tmp_path / "a.zip"), "--json"))["files"] > 10
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        lifecycle.record_trial(run.pk, 1, PASSED)
        lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN)
        assert shown(command("audit", run.key, "--json"))["clean"] is True
        assert shown(command("hold", run.key, "--reason", "a question", "--json", *_ADA))["held"] is True
        assert shown(command("expire", "--older-than", "0", "--json", *_ADA))["held"] == 1
        assert shown(command("hold", run.key, "--release", "--json", *_ADA))["held"] is False
        assert shown(command("expire", "--older-than", "0", "--json", *_ADA))["runs"]
        Artifact.objects.filter(run=run, path="spec.json").update(state="quarantined")
        assert shown(command("export", run.key, str(tmp_path / "b.zip"), "--json"), 3)["paths"] == ["spec.json"]
        Artifact.objects.filter(run=run, path="run.json").update(sha256="0" * 64)
        assert shown(command("audit", run.key, "--json"), 4)["differences"]

    def test_of_keys_and_a_verification(self, kept: tuple[Run, Path], tmp_path: Path, settings: Any) -> None:
        settings.DATA = tmp_path / "data"
        assert shown(command("signing_key", "make", "--days", "30", "--json"))["keys"][0]["role"] == "worker"
        listed = command("signing_key", "list", "--json")
        (tmp_path / "keys.json").write_text(listed.out)
        assert shown(listed)["keys"]
        run = signed_run(tmp_path / "signed")
        put(run, RUN_ENVELOPE, stated(run), keys.private_key("worker"))
        (run / ".DS_Store").write_bytes(b"x")
        asked = ("verify", str(run), "--key", str(tmp_path / "keys.json"), "--json")
        document = shown(command(*asked), 1)  # its time lies before the key's
        assert [each["code"] for each in document["signatures"]] == ["key.not_yet_valid", "signature.other_key"]
        (run / "run.json").unlink()
        assert shown(command(*asked), 1)["differences"]
        (run / RUN_ENVELOPE).unlink()
        assert shown(command(*asked), 1)["verdict"] == "passed"
        assert shown(command("verify", str(tmp_path / "absent"), *asked[2:]), 2)["code"] == "input.no_evidence"

    def test_of_a_classification(self, kept: tuple[Run, Path], tmp_path: Path) -> None:
        _, folder = kept
        assert shown(command("classify", str(folder), "--json"))["verdict"] == "passed"
        (tmp_path / "empty").mkdir()
        assert shown(command("classify", str(tmp_path / "empty"), "--json"), 4)["trials"] == []


class TestDocuments:
    def test_of_profiles(self, db: None, tmp_path: Path) -> None:
        packaged = ENVIRONMENT_SMOKE / "profile.json"
        assert shown(command("profile", "verify", str(packaged), "--json"))["stored"] is False
        assert shown(command("profile", "import", str(packaged), "--json"))["stored"] is True
        (tmp_path / "p.json").write_text("{}")
        assert shown(command("profile", "verify", str(tmp_path / "p.json"), "--json"), 2)["valid"] is False

    def test_of_bundles(self, db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert shown(command("bundle", "build", "--check", "--json"))["changed"] == []
        assert shown(command("bundle", "verify", "--json"))["valid"] is True
        assert shown(command("bundle", "verify", str(tmp_path), "--json"), 2)["valid"] is False
        assert shown(command("bundle", "import", "--json"))["status"] in ("draft", "certified", "reviewed")
        assert shown(command("bundle", "list", "--json"))["bundles"][0]["files"] == "package"
        assert shown(command("bundle", "check", "environment-smoke", "--json"))["valid"] is True
        record = json.loads((ENVIRONMENT_SMOKE / "certification.json").read_text())
        monkeypatch.setattr("runs.engine.grading.certifying.certify_in_containers", lambda *_, **__: record)
        monkeypatch.setattr("runs.services.bundle_import.write_record", lambda *_: None)
        assert shown(command("bundle", "certify", "--json"))["record"]["passed"] is True


@pytest.mark.django_db
def test_of_a_smoke(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_row()

    @contextmanager
    def nothing(*_: object) -> Iterator[None]:
        yield

    outcome = ScenarioResult("passed", 3, 3, 3, 0, 0, 0, (), "clean", 0, 20.04)
    monkeypatch.setattr(smoke, "serve", nothing)
    monkeypatch.setattr(smoke, "worker_running", nothing)
    monkeypatch.setattr(smoke, "make_run", lambda *_: (run, outcome))
    assert shown(command("smoke", "--only", "positive", "--json"))["held"] is True
    assert shown(command("smoke", "--json"), 1)["runs"][1]["misses"]
