"""`manage.py profile` and `manage.py bundle`: thin, with exit codes and `--json`."""

import hashlib
import io
import json

import pytest
from django.core.management import call_command

from benchsite.lib.problems import DocumentError
from runs.documents.bundle.certification import RECORD_NAME, subject_sha256
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.models import AuditEntry, AuditKind, BundleStatus, Profile, TaskBundle
from runs.services import bundle_import
from tests.documents import samples


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    out = io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=io.StringIO())
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def run_json(*arguments: str) -> tuple[int, dict]:
    code, out = run(*arguments, "--json")
    return code, json.loads(out)


@pytest.fixture
def bundle(tmp_path):
    return samples.copy_bundle(tmp_path)


@pytest.fixture
def stored(settings, tmp_path):
    """The folder of an evidence storage that only this test has; it is not there yet."""
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "stored"}}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    return tmp_path / "stored"


@pytest.mark.parametrize("name", ["smoke", "scout"])
def test_verifying_a_v1_file_needs_no_database_and_says_that_it_does_not_run_here(name):
    code, out = run("profile", "verify", str(samples.PROFILES_V1 / f"{name}.json"))
    assert code == 0
    assert "not installed here" in out


def test_verifying_a_broken_file_prints_every_problem_with_code_and_path_and_exits_2(tmp_path):
    broken = samples.changed(
        samples.profile_v2(),
        samples.both(
            samples.put("suites", "environment", "max_steps", value=40), samples.put("suites", "swe", value={})
        ),
        rehash=True,
    )
    (tmp_path / "profile.json").write_text(json.dumps(broken))
    code, out = run("profile", "verify", str(tmp_path / "profile.json"))
    assert code == 2
    assert out.splitlines() == [
        "bad_profile.above_maximum\tsuites.environment.max_steps\t40 is above 32",
        "unknown_suite\tsuites.swe\tthere is no such suite; a v2 profile has exactly environment",
    ]
    code, document = run_json("profile", "verify", str(tmp_path / "profile.json"))
    assert (code, document["valid"]) == (2, False)
    assert [problem["code"] for problem in document["problems"]] == ["bad_profile.above_maximum", "unknown_suite"]


def test_a_file_that_is_not_there_is_bad_input(tmp_path):
    code, document = run_json("profile", "verify", str(tmp_path / "nothing.json"))
    assert (code, document["code"]) == (2, "input.no_file")
    assert document["sentence"].endswith(
        "nothing.json cannot be read: no such file or directory. Give the path of a file."
    )


@pytest.mark.django_db
def test_importing_keeps_the_files_own_bytes_and_both_hashes_once():
    path = samples.PROFILES_V1 / "smoke.json"
    for _ in range(2):
        assert run("profile", "import", str(path))[0] == 0
    profile = Profile.objects.get(name="smoke")
    assert bytes(profile.source) == path.read_bytes()
    assert not profile.startable
    assert AuditEntry.objects.filter(kind=AuditKind.PROFILE_IMPORT).count() == 1


@pytest.mark.django_db
def test_importing_a_broken_profile_stores_nothing(tmp_path):
    (tmp_path / "profile.json").write_text('{"schema": 1}')
    assert run("profile", "import", str(tmp_path / "profile.json"))[0] == 2
    assert not Profile.objects.exists()


def test_the_packaged_bundle_is_built_and_verified():
    assert run("bundle", "build", "--check") == (0, "up to date\n")
    code, document = run_json("bundle", "verify")
    assert (code, document["manifest_sha256"]) == (0, read_bundle(ENVIRONMENT_SMOKE).manifest_sha256)


def test_a_bundle_with_a_changed_byte_is_told_and_built_anew(bundle):
    (bundle / "tasks/file-tree/instruction.md").write_text("Changed.\n")
    code, document = run_json("bundle", "verify", str(bundle))
    assert (code, [problem["path"] for problem in document["problems"]]) == (2, ["tasks/file-tree/instruction.md"])
    assert run_json("bundle", "build", str(bundle), "--check")[0] == 2
    code, document = run_json("bundle", "build", str(bundle))
    assert (code, document["changed"]) == (0, ["manifest.json", "profile.json"])
    assert run("bundle", "verify", str(bundle))[0] == 0


@pytest.mark.django_db
def test_importing_a_bundle_stores_its_files_and_a_draft(bundle, stored):
    (bundle / RECORD_NAME).unlink(missing_ok=True)
    code, document = run_json("bundle", "import", str(bundle))
    row = TaskBundle.objects.get()
    assert (code, document["status"], row.status) == (0, "draft", BundleStatus.DRAFT)
    assert row.place == "storage"
    files = {file["sha256"] for task in read_bundle(bundle).document["tasks"] for file in task["files"]}
    kept = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in stored.rglob("*") if path.is_file()}
    assert kept == {digest: digest for digest in {*files, row.manifest_sha256}}


@pytest.mark.django_db
def test_importing_the_packaged_bundle_stores_no_file(stored):
    assert run("bundle", "import")[0] == 0
    assert TaskBundle.objects.get().packaged == "environment-smoke"
    assert not stored.exists()


@pytest.mark.django_db
def test_a_changed_bundle_of_the_same_revision_is_refused(bundle, stored):
    assert run("bundle", "import", str(bundle))[0] == 0
    (bundle / "tasks/file-tree/instruction.md").write_text("Changed.\n")
    assert run("bundle", "import", str(bundle))[0] == 2
    run("bundle", "build", str(bundle))
    (bundle / RECORD_NAME).unlink(missing_ok=True)
    assert run("bundle", "import", str(bundle))[0] in (2, 3)
    assert TaskBundle.objects.count() == 1


@pytest.mark.django_db
def test_a_certification_of_another_manifest_is_refused(bundle, stored):
    record = {
        "schema": "benchsite.certification/v1",
        "manifest_sha256": "0" * 64,
        "passed": True,
        "grader": "container",
    }
    (bundle / RECORD_NAME).write_text(json.dumps(record))
    code, document = run_json("bundle", "import", str(bundle))
    assert (code, document["problems"][0]["code"]) == (2, "certification.other_bundle")


@pytest.mark.django_db
@pytest.mark.parametrize(("field", "value"), [("passed", False), ("grader", "local"), ("passed", True)])
def test_only_a_passed_certification_in_containers_makes_a_bundle_certified(bundle, stored, field, value):
    digest = subject_sha256(read_bundle(bundle))
    record = {"schema": "benchsite.certification/v1", "subject_sha256": digest, "passed": True, "grader": "container"}
    (bundle / RECORD_NAME).write_text(json.dumps(record | {field: value}))
    code, _ = run("bundle", "import", str(bundle))
    stored = list(TaskBundle.objects.values_list("status", flat=True))
    assert (code, stored) == ((0, ["certified"]) if value is True else (2, []))


@pytest.mark.django_db
def test_the_packaged_bundle_is_installed_reviewed_and_only_once():
    for _ in range(2):
        profile, bundle = bundle_import.install_packaged()
        assert (bundle.status, profile.startable) == (BundleStatus.REVIEWED, True)
    assert (TaskBundle.objects.count(), Profile.objects.count()) == (1, 1)


@pytest.mark.django_db
def test_a_viewer_imports_nothing(django_user_model):
    django_user_model.objects.create_user("vera")
    assert run("bundle", "import", "--user", "vera")[0] == 2
    assert run("profile", "import", str(samples.PROFILES_V1 / "smoke.json"), "--user", "vera")[0] == 2
    assert not TaskBundle.objects.exists()


def test_an_unreadable_folder_says_what_is_missing(tmp_path):
    code, document = run_json("bundle", "verify", str(tmp_path))
    assert (code, document["problems"][0]["code"]) == (2, "bundle.no_manifest")
    with pytest.raises(DocumentError):
        read_bundle(tmp_path)
