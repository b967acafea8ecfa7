"""`manage.py experiment` and what `classify` says of a plain Harbor job."""

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.models import Experiment
from tests.commands.calling import command
from tests.commands.schemas import validated
from tests.experiments.jobs import copy_of
from tests.runs.rows import person


@pytest.fixture(autouse=True)
def stored(settings: Any, tmp_path: Path) -> None:
    backend = {
        "BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "stored"},
    }  # fmt: skip
    settings.STORAGES = {**settings.STORAGES, "default": backend}


@pytest.mark.django_db
class TestExperiment:
    def test_a_job_is_imported_listed_and_shown(self, jobs: Path) -> None:
        job = str(jobs / "0.22.0-01-outcomes")
        would = validated(command("experiment", "import", job, "--dry-run", "--json").json)
        assert would["dry_run"] and not Experiment.objects.exists()
        done = command("experiment", "import", job, "--json")
        document = validated(done.json)
        assert done.code == 0 and document["experiments"] == would["experiments"]
        [made] = document["experiments"]
        assert (made["requested"], made["graded"], made["status"]) == (15, 5, "failed")
        [listed] = validated(command("experiment", "list", "--json").json)["experiments"]
        assert (listed["graded"], listed["passed"], listed["trust"]) == (5, 3, "reported")
        shown = validated(command("experiment", "show", made["experiment_id"][:20], "--json").json)
        told = {trial["trial_name"]: (trial["outcome"], trial["rewards"]) for trial in shown["trials"]}
        assert told == {trial["trial_name"]: (trial["outcome"], trial["rewards"]) for trial in made["trials"]}
        assert len(shown["unproved"]) == 8 and "Not proved" in shown["unproved_sentence"]

    def test_people_read_whose_word_it_is_beside_the_numbers(self, jobs: Path) -> None:
        told = command("experiment", "import", str(jobs / "0.22.0-01-outcomes"))
        assert "3 passed of 5 graded of 15" in told.out and "Somebody else's Harbor reported this" in told.out
        assert "3 passed of 5 graded of 15 requested\n" in command("experiment", "list").out
        assert "reported, imported" in command("experiment", "show", Experiment.objects.get().key).out

    def test_a_second_import_is_refused_with_its_remedy(self, jobs: Path) -> None:
        job = str(jobs / "0.22.0-02-attempts")
        assert command("experiment", "import", job).code == 0
        again = command("experiment", "import", job, "--json")
        assert (again.code, validated(again.json)["code"]) == (2, "import.all_finalized")
        assert "--experiment-id" in again.json["sentence"]

    def test_a_candidate_that_fails_is_exit_4(self, jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evidence.experiments.importing._errors", lambda part: 1 / 0 if part is None else _full())
        failed = command("experiment", "import", str(jobs / "0.22.0-02-attempts"), "--json")
        assert failed.code == 4
        [lost] = validated(failed.json)["failed"]
        assert lost["error"] == "OSError: no room" and not Experiment.objects.exists()

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (("import",), "input.no_target"),
            (("show",), "input.no_target"),
            (("list", "x"), "input.bad"),
            (("show", "nothing-like-it"), "input.unknown_experiment"),
            (("import", "/nowhere"), "import.no_folder"),
            (("import", "/", "--pass-threshold", "high"), "import.bad_option"),
        ],
    )
    def test_what_cannot_be_done_is_exit_2(self, arguments: tuple[str, ...], code: str) -> None:
        refused = command("experiment", *arguments, "--json")
        assert (refused.code, validated(refused.json)["code"]) == (2, code)

    def test_a_viewer_sees_and_does_not_import(self, jobs: Path) -> None:
        person("vera", "viewer")
        assert command("experiment", "list", "--user", "vera").code == 0
        job = str(jobs / "0.22.0-02-attempts")
        assert validated(command("experiment", "import", job, "--user", "vera", "--json").json)["code"]
        assert not Experiment.objects.exists()


def _full() -> str:
    raise OSError("no room")


@pytest.mark.parametrize("name", ["0.13.2-01-outcomes", "0.26.0-16-solo-nop", "0.22.0-11b-nojobresult"])
def test_classify_says_what_a_plain_harbor_job_is_and_names_the_import(jobs: Path, name: str) -> None:
    told = command("classify", str(jobs / name), "--json")
    assert (told.code, validated(told.json)["code"]) == (2, "input.harbor_job")
    assert "job folder of Harbor, not a run's folder" in told.json["sentence"]
    assert "manage.py experiment import" in told.json["sentence"]


def test_classify_still_reads_a_run_folder_into_which_a_jobs_files_were_put(jobs: Path, tmp_path: Path) -> None:
    folder = copy_of(jobs / "0.22.0-16-solo-oracle", tmp_path)
    (folder / "spec.json").write_text(json.dumps({}))
    assert json.loads(command("classify", str(folder), "--json").out)["schema"] == "benchsite.classification/v1"
