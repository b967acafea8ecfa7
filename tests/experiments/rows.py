"""Rows of experiments for tests."""

from typing import Any

from django.utils import timezone

from evidence.models import Case, Experiment, ExperimentTrial, Score, Suite


def suite(suite_id: str = "suite-1") -> Suite:
    return Suite.objects.get_or_create(suite_id=suite_id, defaults={"name": suite_id})[0]


def experiment(experiment_id: str = "job-1", **fields: Any) -> Experiment:
    """An open imported experiment."""
    values: dict[str, Any] = {
        "name": experiment_id, "source": "imported", "trust": "reported", "suite": suite(), "agent_name": "alpha",
        "checkpoint_id": "harbor-checkpoint-0", "requested": 1,
    }  # fmt: skip
    return Experiment.objects.create(experiment_id=experiment_id, **{**values, **fields})


def trial(of: Experiment, case: str = "one", attempt: int = 1, **fields: Any) -> ExperimentTrial:
    """A trial that was reported as passed, unless `fields` say otherwise."""
    row = Case.objects.get_or_create(suite=of.suite, case_id=f"case-{case}", defaults={"name": case})[0]
    values: dict[str, Any] = {
        "source": of.source, "trust": of.trust, "trial_name": f"{case}__{attempt}",
        "reported_outcome": "reported_passed",
    }  # fmt: skip
    return ExperimentTrial.objects.create(experiment=of, case=row, attempt=attempt, **{**values, **fields})


def score(of: ExperimentTrial, number: float = 1.0, name: str = "reward", **fields: Any) -> Score:
    values: dict[str, Any] = {"evaluator": f"harbor.{name}", "main": name == "reward"}
    return Score.objects.create(trial=of, name=name, number=number, **{**values, **fields})


def finalize(of: Experiment, result: str = "completed") -> None:
    Experiment.objects.filter(pk=of.pk).update(state="finalized", result=result, finalized_at=timezone.now())
