"""Importing a job: what is there afterwards, what a second import does, and what is refused."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from evidence.experiments import importing
from evidence.experiments.importing import AllFinalized, ImportOptions, JobImported, import_job, publish_harbor_job
from evidence.imports.identity import suite_id
from evidence.models import (
    Case,
    Experiment,
    ExperimentFile,
    ExperimentTrial,
    JobImport,
    Score,
    Suite,
    SuiteRevision,
)
from runs.models import AuditEntry
from runs.services.refusals import BadInput
from tests.experiments.jobs import copy_of, oracle, unpack
from tests.runs.rows import person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stored(settings: Any, tmp_path: Path) -> Path:
    """A storage of the test's own."""
    place = tmp_path / "stored"
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": place}}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    return place


@pytest.fixture
def olga() -> User:
    return person("olga", "operator")


def counts() -> dict[str, int]:
    models = (Experiment, ExperimentTrial, Score, ExperimentFile, Case, Suite, JobImport, SuiteRevision)
    return {model.__name__: model.objects.count() for model in models}


def test_a_job_becomes_finalized_experiments_with_the_published_ids(jobs: Path, olga: User) -> None:
    name = "0.26.0-03-matrix"
    result = import_job(jobs / name, user=olga)
    told = oracle()[name]["runs"]["default"]
    rows = {row.experiment_id: row for row in Experiment.objects.select_related("suite")}
    assert set(rows) == {each["experiment_id"] for each in told["experiments"]} and len(result.imported) == 4
    for each in told["experiments"]:
        row = rows[each["experiment_id"]]
        assert (row.suite.suite_id, row.checkpoint_id) == (each["suite_id"], each["suite_version"])
        assert (row.source, row.trust, row.state, row.result) == ("imported", "reported", "finalized", "completed")
        assert row.requested == row.trials.count() == 4 and row.job_import is not None
        assert (row.job_import.created_by_name, row.job_import.harbor_version) == ("olga", "0.26.0")
    passed = {trial["dir"] for trial in told["trials"] if trial["status"] == "passed"}
    trials = ExperimentTrial.objects.filter(reported_outcome="reported_passed")
    assert set(trials.values_list("trial_name", flat=True)) == passed
    assert set(Score.objects.filter(main=True, passed=True).values_list("trial__trial_name", flat=True)) == passed
    assert AuditEntry.objects.filter(kind="experiment_import").count() == 4


def test_a_second_import_changes_nothing_and_names_the_remedy(jobs: Path, olga: User) -> None:
    import_job(jobs / "0.22.0-01-outcomes", user=olga)
    before = counts()
    with pytest.raises(AllFinalized, match="--experiment-id"):
        import_job(jobs / "0.22.0-01-outcomes", user=olga)
    assert counts() == before
    again = import_job(jobs / "0.22.0-01-outcomes", ImportOptions(experiment_id="mine"), user=olga)
    assert again.imported[0].experiment_id.startswith("mine-")
    assert Experiment.objects.count() == 2 and Case.objects.count() == before["Case"]


def test_errors_name_five_trials_and_count_the_rest(jobs: Path, olga: User) -> None:
    import_job(jobs / "0.22.0-11-damaged", user=olga)
    row = Experiment.objects.get()
    assert (row.result, row.requested) == ("failed", 15)
    assert row.error.count("attempt 1: ") == 5 and " more errored and " in row.error and "not reported" in row.error
    assert row.trials.filter(reported_outcome="not_reported").count() == 5


def test_what_was_handed_in_is_kept_under_its_hash_and_private(jobs: Path, olga: User, stored: Path) -> None:
    import_job(jobs / "0.22.0-25-links", user=olga)
    files = {(row.trial.trial_name[:5] if row.trial else "", row.path): row for row in ExperimentFile.objects.all()}
    link = files["links", "agent/link-out"]
    assert (link.state, link.note, link.stored) == ("unsafe_type", "link", "")
    assert files["", "lock.json"].readable
    for row in files.values():
        if row.readable:
            assert (stored / row.stored).name == row.sha256 and (stored / row.stored).stat().st_size == row.size
    assert not any("root:" in path.read_text(errors="replace") for path in stored.rglob("*") if path.is_file())


def test_without_artifacts_only_what_a_result_is_derived_from_is_kept(jobs: Path, olga: User) -> None:
    import_job(jobs / "0.22.0-10-separate", ImportOptions(artifacts=False), user=olga)
    paths = set(ExperimentFile.objects.values_list("path", flat=True))
    assert {"result.json", "config.json", "verifier/reward.txt"} <= paths
    assert not any(path.startswith("artifacts/") for path in paths)


def test_a_dry_run_writes_nothing(jobs: Path, olga: User, stored: Path) -> None:
    before = counts()
    result = import_job(jobs / "0.22.0-01-outcomes", ImportOptions(dry_run=True), user=olga)
    assert len(result.imported) == 1 and counts() == before and not stored.exists()


def test_a_candidate_that_fails_leaves_nothing_and_the_same_import_again_adds_only_it(
    jobs: Path, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = importing._scores, []

    def failing(row: ExperimentTrial, trial: Any) -> Any:
        calls.append(row.experiment.experiment_id)
        if len(set(calls)) == 2:
            raise OSError("no room")
        return real(row, trial)

    monkeypatch.setattr(importing, "_scores", failing)
    first = import_job(jobs / "0.26.0-03-matrix", user=olga)
    assert (len(first.imported), [sentence for _, sentence in first.failed]) == (3, ["OSError: no room"])
    lost = first.failed[0][0].experiment_id
    assert not Experiment.objects.filter(experiment_id=lost).exists() and Experiment.objects.count() == 3
    monkeypatch.setattr(importing, "_scores", real)
    second = import_job(jobs / "0.26.0-03-matrix", user=olga)
    assert [each.experiment_id for each in second.imported] == [lost] and len(second.skipped) == 3


class TestSuites:
    def published(self, jobs: Path, name: str, user: User, mode: str, **options: Any) -> JobImported:
        return import_job(jobs / name, ImportOptions(publish_suite=mode, **options), user=user)

    def test_a_subset_adds_and_updates_and_a_replacement_also_removes(self, jobs: Path, olga: User) -> None:
        suite = {"suite_id": "mine"}
        self.published(jobs, "0.22.0-02-attempts", olga, "subset", **suite)
        self.published(jobs, "0.22.0-16-solo-oracle", olga, "subset", **suite)
        first, second = SuiteRevision.objects.order_by("number")
        assert (first.number, second.number, first.case_count, second.case_count) == (1, 2, 3, 4)
        result = self.published(jobs, "0.22.0-16-solo-oracle", olga, "replace", experiment_id="again", **suite)
        assert [(each.number, each.case_count) for each in result.revisions] == [(3, 1)]
        assert Case.objects.filter(suite__suite_id="mine").count() == 4  # what was removed keeps its history

    def test_what_changes_nothing_makes_no_revision(self, jobs: Path, olga: User) -> None:
        self.published(jobs, "0.22.0-02-attempts", olga, "subset")
        self.published(jobs, "0.22.0-02-attempts", olga, "subset", experiment_id="again")
        row = SuiteRevision.objects.get()
        assert Experiment.objects.filter(revision=row).count() == 2
        assert row.checkpoint_id == Experiment.objects.all()[0].checkpoint_id

    def test_a_task_that_changed_is_no_part_of_a_checkpoint(self, jobs: Path, olga: User) -> None:
        result = self.published(jobs, "0.22.0-09-changed", olga, "replace")
        assert [each.cases.get().case.name for each in result.revisions] == ["still"]

    def test_naming_a_suite_alone_publishes_nothing(self, jobs: Path, olga: User) -> None:
        import_job(jobs / "0.22.0-02-attempts", ImportOptions(suite_id="mine"), user=olga)
        assert not SuiteRevision.objects.exists()
        assert Experiment.objects.get().suite.suite_id == "mine"

    def test_a_dataset_whose_name_is_everybodys_needs_a_suite_id(self, jobs: Path, olga: User) -> None:
        with pytest.raises(BadInput, match="--suite-id") as refused:
            self.published(jobs, "0.22.0-16-solo-oracle", olga, "subset")
        assert refused.value.code == "import.ambiguous_suite"
        import_job(jobs / "0.22.0-16-solo-oracle", user=olga)
        assert Experiment.objects.get().suite.suite_id == suite_id("")

    def test_one_suite_id_for_several_datasets_is_refused(self, jobs: Path, olga: User) -> None:
        with pytest.raises(BadInput) as refused:
            import_job(jobs / "0.22.0-07-two-datasets", ImportOptions(suite_id="mine"), user=olga)
        assert refused.value.code == "import.several_datasets" and not Suite.objects.exists()


@pytest.mark.parametrize(
    "options",
    [
        ImportOptions(experiment_id="x" * 201),
        ImportOptions(experiment_id="a\nb"),
        ImportOptions(name=" a"),
        ImportOptions(main_reward=""),
        ImportOptions(pass_threshold=float("nan")),
        ImportOptions(pass_threshold=float("inf")),
        ImportOptions(publish_suite="merge"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(jobs: Path, olga: User, options: ImportOptions) -> None:
    with pytest.raises(BadInput) as refused:
        import_job(jobs / "0.22.0-02-attempts", options, user=olga)
    assert refused.value.code == "import.bad_option"


def test_a_folder_that_is_no_job_is_refused(tmp_path: Path, olga: User) -> None:
    for place, code in ((tmp_path, "import.no_job"), (tmp_path / "none", "import.no_folder")):
        with pytest.raises(BadInput) as refused:
            import_job(place, user=olga)
        assert refused.value.code == code


def test_a_viewer_imports_nothing(jobs: Path) -> None:
    with pytest.raises(PermissionDenied):
        import_job(jobs / "0.22.0-02-attempts", user=person("vera", "viewer"))
    assert not Experiment.objects.exists()


def test_the_published_call_returns_what_it_made(jobs: Path, olga: User) -> None:
    told = publish_harbor_job(jobs / "0.25.0-05-rewards", user=olga)
    [run] = told["runs"]  # type: ignore[misc]
    row = Experiment.objects.get()
    assert run == {
        "experiment_id": row.experiment_id, "url": f"/experiments/{row.key}/", "trial_count": 5, "score_count": 10,
    }  # fmt: skip
    assert (told["skipped"], told["failed"]) == ([], [])


_KILLED = """
import os, signal, sys
import django
django.setup()
from pathlib import Path
from django.contrib.auth.models import User
from evidence.experiments import files, importing
left = int(sys.argv[2])
real = files._store
def store(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
files._store = store
importing.import_job(Path(sys.argv[1]), user=User.objects.get(username="olga"))
"""


def test_killed_in_the_middle_and_run_again_only_what_is_missing_is_added(jobs: Path, tmp_path: Path) -> None:
    """A process of its own with a database of its own is killed while it stores the second candidate's files."""
    site = {**os.environ, "BENCHSITE_DATA": str(tmp_path / "data"), "DJANGO_SETTINGS_MODULE": "benchsite.settings"}
    site.pop("DATABASE_URL", None)

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *arguments], env=site, capture_output=True, text=True, check=False)

    made = python("manage.py", "migrate", "--verbosity", "0")
    assert made.returncode == 0, made.stderr
    people = "from django.contrib.auth.models import User; User.objects.create_superuser('olga')"
    assert python("manage.py", "shell", "--no-imports", "-c", people).returncode == 0
    job, enough = str(jobs / "0.26.0-03-matrix"), "100000"
    killed = python("-c", _KILLED, job, "60")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    look = (
        "from evidence.models import *; print(*sorted(e.experiment_id + ' ' + e.state + str(e.trials.count())"
        " + str(e.created_at) for e in Experiment.objects.all()), sep='\\n')"
    )
    before = python("manage.py", "shell", "--no-imports", "-c", look).stdout.split("\n")[:-1]
    assert 1 <= len(before) <= 3 and all(" finalized4" in line for line in before)
    again = python("-c", _KILLED, job, enough)
    assert again.returncode == 0, again.stderr
    after = python("manage.py", "shell", "--no-imports", "-c", look).stdout.split("\n")[:-1]
    assert len(after) == 4 and set(before) < set(after)


def test_a_copy_that_was_cut_while_it_was_stored_is_made_whole(jobs: Path, olga: User, stored: Path) -> None:
    import_job(jobs / "0.22.0-02-attempts", user=olga)
    row = next(file for file in ExperimentFile.objects.filter(path="result.json") if file.size > 100)
    (stored / row.stored).write_bytes(b"{")
    from evidence.experiments.files import _store

    data = (jobs / "0.22.0-02-attempts" / (row.trial.trial_name if row.trial else "") / "result.json").read_bytes()
    assert _store(row.stored, data, row.sha256) == row.stored
    assert (stored / row.stored).read_bytes() == data


def test_unpacking_is_not_following(tmp_path: Path) -> None:
    """The fixture keeps its links, or the tests of links would test nothing."""
    job = unpack(tmp_path, "0.22.0-25-links") / "0.22.0-25-links"
    assert any(path.is_symlink() for path in copy_of(job, tmp_path / "copies").rglob("*"))
