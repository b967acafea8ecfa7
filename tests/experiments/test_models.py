"""What the database itself refuses of experiments."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError, IntegrityError, transaction

from evidence.imports.outcomes import ObservedOutcome, ReportedOutcome
from evidence.models import (
    Case,
    Experiment,
    ExperimentFile,
    ExperimentTrial,
    JobImport,
    RevisionCase,
    Score,
    Suite,
    SuiteRevision,
    triggers,
)
from runs.models import Run, Trial
from runs.outcomes.buckets import Bucket
from tests.experiments.rows import experiment, finalize, score, suite, trial

pytestmark = pytest.mark.django_db


def refused(act: Callable[[], Any]) -> None:
    with pytest.raises((IntegrityError, DataError)), transaction.atomic():
        act()


@pytest.mark.parametrize(
    ("source", "trust"),
    [("imported", "proved"), ("imported", "observed"), ("live", "proved"), ("suite", "reported"), ("else", "reported")],
)
def test_trust_is_that_of_the_source(source: str, trust: str) -> None:
    refused(lambda: experiment(source=source, trust=trust))


def test_an_outcome_lies_in_the_column_of_its_trust() -> None:
    imported, hosted = experiment(), experiment("job-2", source="suite", trust="observed")
    refused(lambda: trial(imported, reported_outcome=None, observed_outcome="observed_passed"))
    refused(lambda: trial(hosted, reported_outcome="reported_passed"))
    refused(lambda: trial(imported, reported_outcome="passed"))
    trial(imported)
    trial(hosted, reported_outcome=None, observed_outcome="observed_failed")


def test_a_trial_has_the_source_of_its_experiment() -> None:
    imported = experiment()
    refused(lambda: trial(imported, source="suite", trust="observed", reported_outcome=None))
    refused(lambda: trial(imported, source="environment", trust="proved", reported_outcome=None))


def test_no_reported_or_observed_outcome_is_a_graded_bucket_and_no_column_of_runs_takes_one() -> None:
    words = {word.value for word in (*ReportedOutcome, *ObservedOutcome)}
    assert not words & {Bucket.PASSED, Bucket.FAILED}
    names = {field.name for model in (Experiment, ExperimentTrial, Score) for field in model._meta.get_fields()}
    assert not names & {"bucket", "verdict"}
    related = {field.related_model for model in (Experiment, ExperimentTrial) for field in model._meta.get_fields()}
    assert not related & {Run, Trial}


def test_there_is_one_main_score_and_only_that_one_passes() -> None:
    found = trial(experiment())
    score(found, passed=True)
    refused(lambda: score(found, name="style", main=True))
    refused(lambda: score(found, name="style", passed=True))
    refused(lambda: score(found, name="reward"))
    for number in (float("inf"), float("-inf"), float("nan")):
        refused(lambda number=number: score(found, number, name="style"))
    score(found, 0.5, name="style")


def test_a_result_belongs_to_what_is_finalized() -> None:
    refused(lambda: experiment(state="finalized"))
    refused(lambda: experiment(result="completed"))


def test_nothing_of_a_finalized_experiment_changes() -> None:
    over = experiment()
    found = trial(over)
    mine = score(found)
    finalize(over)
    changes: list[tuple[type[Any], Any, dict[str, Any]]] = [
        (Experiment, over, {"state": "open", "result": None, "finalized_at": None}),
        (Experiment, over, {"result": "failed"}),
        (Experiment, over, {"name": "another"}),
        (Experiment, over, {"requested": 9}),
        (Experiment, over, {"agent_name": "beta"}),
        (Experiment, over, {"details": {"a": 1}}),
        (ExperimentTrial, found, {"reported_outcome": "reported_failed"}),
        (ExperimentTrial, found, {"error": "none"}),
        (ExperimentTrial, found, {"input_tokens": 1}),
        (ExperimentTrial, found, {"badges": ["x"]}),
        (Score, mine, {"number": 0.0}),
    ]
    for model, row, values in changes:
        refused(lambda model=model, row=row, values=values: model.objects.filter(pk=row.pk).update(**values))
    refused(lambda: trial(over, attempt=2))
    refused(lambda: score(found, name="style"))
    refused(lambda: ExperimentFile.objects.create(experiment=over, trial=found, path="a", state="missing"))


def test_an_outcome_and_a_score_are_written_once_also_while_the_experiment_is_open() -> None:
    found = trial(experiment(), reported_outcome=None)
    mine = score(found)
    ExperimentTrial.objects.filter(pk=found.pk).update(reported_outcome="errored", error="it broke")
    refused(lambda: ExperimentTrial.objects.filter(pk=found.pk).update(reported_outcome="reported_passed"))
    refused(lambda: ExperimentTrial.objects.filter(pk=found.pk).update(reported_outcome=None))
    refused(lambda: Score.objects.filter(pk=mine.pk).update(number=0.0))
    ExperimentTrial.objects.filter(pk=found.pk).update(error="it broke later")


def test_a_revision_and_its_cases_never_change_and_none_is_added() -> None:
    mine = suite()
    case, other = (Case.objects.create(suite=mine, case_id=name, name=name) for name in ("one", "two"))
    revision = SuiteRevision.objects.create(suite=mine, number=1, checkpoint_id="c", mode="subset", case_count=1)
    row = RevisionCase.objects.create(revision=revision, case=case, checksum="a")
    refused(lambda: RevisionCase.objects.create(revision=revision, case=other, checksum="b"))
    refused(lambda: RevisionCase.objects.filter(pk=row.pk).update(checksum="b"))
    refused(lambda: SuiteRevision.objects.filter(pk=revision.pk).update(mode="replace"))
    refused(lambda: SuiteRevision.objects.filter(pk=revision.pk).update(case_count=2))
    refused(lambda: Case.objects.filter(pk=case.pk).update(name="another"))
    refused(lambda: Suite.objects.filter(pk=mine.pk).update(suite_id="another"))
    refused(lambda: SuiteRevision.objects.create(suite=mine, number=1, checkpoint_id="d", mode="subset", case_count=0))
    refused(lambda: SuiteRevision.objects.create(suite=mine, number=2, checkpoint_id="d", mode="merge", case_count=0))


def test_who_handed_a_job_in_never_changes() -> None:
    row = JobImport.objects.create(job_id="j", job_name="n", created_by_name="olga")
    refused(lambda: JobImport.objects.filter(pk=row.pk).update(created_by_name="otto"))


def test_the_guards_can_be_installed_again_and_have_names_of_their_own() -> None:
    triggers.install()
    triggers.install()
    names = [guard.name for guard in triggers.GUARDS] + [name for name, *_ in triggers._REFUSALS + triggers._REMOVALS]
    assert len(set(names)) == len(names)
