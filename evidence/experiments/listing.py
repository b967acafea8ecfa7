"""Experiments as lists show them: each with how many of its requested trials were graded, and how many passed."""

from django.db.models import Count, Q, QuerySet

from evidence.experiments.reading import graded, passed
from evidence.models import Experiment
from runs.services.access import VIEW, AnyUser, require
from runs.services.refusals import BadInput, quoted


def listed(user: AnyUser) -> QuerySet[Experiment]:
    """All experiments, newest first; each with `graded` and `passed`, counts of its trials. Raises PermissionDenied."""
    require(user, VIEW)
    return Experiment.objects.select_related("suite", "job_import").annotate(
        graded=Count("trials", filter=graded("trials__")), passed=Count("trials", filter=passed("trials__"))
    )


def counts_of(row: Experiment) -> dict[str, int]:
    """`graded` and `passed` of a row that `listed` gave."""
    return {"graded": row.__dict__["graded"], "passed": row.__dict__["passed"]}


def find_experiment(user: AnyUser, key: str) -> Experiment:
    """The experiment with this id or key, or the one whose id begins so. Raises BadInput for none or several."""
    rows = listed(user)
    exact = rows.filter(Q(experiment_id=key) | Q(key=key)).first()
    if exact is not None:
        return exact
    found = list(rows.filter(experiment_id__startswith=key)[:2]) if len(key) >= 8 else []
    if len(found) != 1:
        what = "There is no such experiment" if not found else "Several experiments begin like this; give more"
        raise BadInput(
            f"{what}: {quoted(key)}. All of them: manage.py experiment list", code="input.unknown_experiment"
        )
    return found[0]
