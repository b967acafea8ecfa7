"""What pages ask of experiments: one of them, its trials as numbers, its tally. A fixed number of queries each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Model, Q, QuerySet
from django.http import Http404

from evidence.imports.outcomes import ObservedOutcome, ReportedOutcome
from evidence.models import Case, Experiment, ExperimentTrial, Suite
from evidence.statistics.attempts import Attempt, CaseTally, Tally, tally
from runs.services import access
from runs.services.access import AnyUser

_REPORTED = {word.value: word is ReportedOutcome.PASSED for word in ReportedOutcome if word.graded}
_OBSERVED = {word.value: word is ObservedOutcome.PASSED for word in ObservedOutcome if word.graded}
_GRADES = _REPORTED | _OBSERVED


def graded(trials: str = "") -> Q:
    """The trials that have a grade; `trials` is how the asking model names them, such as ``trials__``."""
    return Q(**{f"{trials}reported_outcome__in": [*_REPORTED]}) | Q(**{f"{trials}observed_outcome__in": [*_OBSERVED]})


def passed(trials: str = "") -> Q:
    """The trials whose grade is a pass."""
    reported, observed = ReportedOutcome.PASSED.value, ObservedOutcome.PASSED.value
    return Q(**{f"{trials}reported_outcome": reported}) | Q(**{f"{trials}observed_outcome": observed})


def experiment_or_404(user: AnyUser, key: str) -> Experiment:
    """The experiment with what its page shows; 404 when unknown, 403 when the role does not allow it."""
    access.require(user, access.VIEW)
    return _found(Experiment.objects.select_related("suite", "revision", "job_import").filter(key=key), "experiment")


def experiments_or_404(user: AnyUser, keys: Sequence[str]) -> list[Experiment]:
    """The experiments of these keys, in this order; 404 when one is unknown."""
    access.require(user, access.VIEW)
    asked = [key for key in keys if key.isprintable()]
    found = {one.key: one for one in Experiment.objects.select_related("suite").filter(key__in=asked)}
    if len(asked) < len(keys) or len(found) < len(asked):
        raise Http404("No such experiment.")
    return [found[key] for key in keys]


def trial_or_404(user: AnyUser, key: str, pk: int, permission: str = access.VIEW) -> ExperimentTrial:
    """Trial ``pk`` of experiment ``key``, with its case; 404 and 403 as for the experiment."""
    access.require(user, permission)
    found = ExperimentTrial.objects.select_related("experiment", "experiment__suite", "case")
    return _found(found.filter(pk=pk, experiment__key=key), "trial")


def suite_or_404(user: AnyUser, pk: int) -> Suite:
    access.require(user, access.VIEW)
    return _found(Suite.objects.filter(pk=pk), "suite")


def case_or_404(user: AnyUser, pk: int) -> Case:
    """The case with its suite."""
    access.require(user, access.VIEW)
    return _found(Case.objects.select_related("suite").filter(pk=pk), "case")


def _found[Row: Model](rows: "QuerySet[Row]", word: str) -> Row:
    found = rows.first()
    if found is None:
        raise Http404(f"No such {word}.")
    return found


def grade(outcome: str | None) -> bool | None:
    """Whether an outcome is a pass; None for what was not graded."""
    return _GRADES.get(outcome or "")


@dataclass(frozen=True, slots=True)
class Line:
    """One trial as numbers and tables need it. ``outcome`` is empty while the trial goes on."""

    pk: int
    case: int
    case_name: str
    attempt: int
    outcome: str
    checksum: str
    error_type: str
    agent_error: str
    duration_ms: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    badges: Sequence[str]

    @property
    def passed(self) -> bool | None:
        return grade(self.outcome)

    @property
    def tokens(self) -> int | None:
        """In and out; None unless both were reported."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


_OF_A_LINE = (
    "pk", "case_id", "case__name", "attempt", "reported_outcome", "observed_outcome", "checksum", "error_type",
    "agent_error", "duration_ms", "input_tokens", "output_tokens", "cost_usd", "badges",
)  # fmt: skip


def lines(experiment: Experiment) -> list[Line]:
    """Every trial of an experiment, by the case's name, then by attempt."""
    rows = experiment.trials.order_by("case__name", "case_id", "attempt", "pk").values_list(*_OF_A_LINE)
    return [_line(*row) for row in rows]


def _line(pk: int, case: int, name: str, attempt: int, reported: str | None, observed: str | None, *rest: Any) -> Line:
    checksum, error_type, agent_error, duration_ms, input_tokens, output_tokens, cost_usd, badges = rest
    return Line(
        pk=pk,
        case=case,
        case_name=name,
        attempt=attempt,
        outcome=reported or observed or "",
        checksum=checksum,
        error_type=error_type,
        agent_error=agent_error,
        duration_ms=duration_ms,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost_usd,
        badges=badges if isinstance(badges, list) else [],
    )


def tally_of(experiment: Experiment, found: Sequence[Line]) -> Tally:
    """What statistics take of one experiment, its cases by their primary keys."""
    attempts = [Attempt(str(line.case), line.passed, line.cost_usd, line.tokens) for line in found]
    return tally(attempts, requested=max(experiment.requested, len(found)))


def tallies(experiments: Iterable[Experiment]) -> dict[int, Tally]:
    """The tally of each experiment by its primary key, counted by the database in one query.

    Only what rates are made of: what an attempt cost is not in it.
    """
    requested = {one.pk: one.requested for one in experiments}
    rows = (
        ExperimentTrial.objects.filter(experiment__in=list(requested))
        .order_by()
        .values_list("experiment_id", "case_id")
        .annotate(passed=Count("pk", filter=passed()), graded=Count("pk", filter=graded()), attempts=Count("pk"))
    )
    cases: dict[int, dict[str, CaseTally]] = {pk: {} for pk in requested}
    for experiment, case, *counts in rows:
        cases[experiment][str(case)] = CaseTally(str(case), *counts)
    return {
        pk: Tally(of, max(requested[pk], sum(case.attempts for case in of.values())), ()) for pk, of in cases.items()
    }


def grouped(experiments: Iterable[Experiment]) -> Iterable[tuple[int, int, str]]:
    """Each (experiment, case, checksum) that their trials have, once."""
    rows = ExperimentTrial.objects.filter(experiment__in=[one.pk for one in experiments]).order_by()
    return rows.values_list("experiment_id", "case_id", "checksum").distinct()
