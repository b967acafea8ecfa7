"""Experiments, what they amount to and how one compares with another; and the checkpoints of suites."""

from dataclasses import replace
from typing import Annotated, Literal

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import Field

from benchsite.api.answers import answer, documented, older
from benchsite.api.bearer import Bearer, person
from benchsite.api.reading import LIMIT, Whole, only
from benchsite.lib.closed import Closed
from evidence.experiments.comparing import Table
from evidence.experiments.listing import find_experiment, listed
from evidence.experiments.reading import lines, tally_of
from evidence.experiments.suites import LONGEST_ID, CaseContent, publish_checkpoint, suite_named
from evidence.models import Experiment
from evidence.serializers import (
    experiment_comparison_document,
    experiment_document,
    experiment_statistics_document,
    experiments_document,
    suite_checkpoint_document,
)
from evidence.statistics.comparing import Setting, comparable, paired
from runs.services import access, audit
from runs.services.access import AnyUser
from runs.services.refusals import BadInput, quoted
from runs.services.tokens import Scope

router = Router(tags=["experiments"])
_READ, _PUBLISH = Bearer(Scope.READ), Bearer(Scope.PUBLISH)
_MOST_CASES = 10_000


@router.get("/experiments", auth=_READ, summary="List experiments", **documented("experiments.v1", 400))
def list_experiments(
    request: HttpRequest,
    limit: Whole = LIMIT,
    before: Annotated[str, Query(description="Only experiments that are older than the one with this key")] = "",
    suite: Annotated[str, Query(description="Only those of the suite with this id")] = "",
) -> HttpResponse:
    """Experiments, newest first, each with its source, its trust, and how many of its requested trials were graded.

    While there are older ones, the header Link names the address that lists them.
    """
    only(request, "limit", "before", "suite")
    found = listed(person(request))
    if suite:
        found = found.filter(suite__suite_id=suite)
    if before:
        anchor = Experiment.objects.only("pk", "created_at").filter(key=before).first()
        if anchor is None:
            raise BadInput(f"before: there is no experiment {quoted(before)}.", code="input.unknown_experiment")
        found = found.filter(Q(created_at__lt=anchor.created_at) | Q(created_at=anchor.created_at, pk__lt=anchor.pk))
    rows = list(found.order_by("-created_at", "-pk")[: limit + 1])
    return answer(experiments_document(rows[:limit]), headers=older(request, rows, limit))


@router.get("/experiments/{experiment}", auth=_READ, summary="One experiment", **documented("experiment.v1", 400, 404))
def get_experiment(request: HttpRequest, experiment: str) -> HttpResponse:
    """An experiment with its trials, by its key, its id, or the first 8 or more characters of that."""
    only(request)
    found = _find(person(request), experiment)
    return answer(experiment_document(found, found.trials.select_related("case").prefetch_related("scores")))


@router.get(
    "/experiments/{experiment}/statistics",
    auth=_READ,
    summary="What an experiment's trials amount to",
    **documented("experiment-statistics.v1", 400, 404),
)
def get_statistics(request: HttpRequest, experiment: str) -> HttpResponse:
    """The pass rate with its interval, pass@k and pass^k, flaky cases, and the cost of a solved case."""
    only(request)
    found = _find(person(request), experiment)
    trials = lines(found)
    names = {str(line.case): line.case_name for line in trials}
    return answer(experiment_statistics_document(found, tally_of(found, trials), names))


@router.get(
    "/experiments/{experiment}/compared/{other}",
    auth=_READ,
    summary="Another experiment seen from this one",
    **documented("experiment-comparison.v1", 400, 404),
)
def get_comparison(request: HttpRequest, experiment: str, other: str) -> HttpResponse:
    """Case by case: better, worse, the same. A test only where nothing forbids it; else what differs."""
    only(request)
    left, right = (_find(person(request), key) for key in (experiment, other))
    table = Table.of([left, right], left)

    def named(setting: Setting) -> Setting:
        return replace(setting, checksums={table.names[case]: sum_ for case, sum_ in setting.checksums.items()})

    differs = comparable(named(table.setting(left)), named(table.setting(right)))
    found = paired(table.tallies[left.pk], table.tallies[right.pk], differs)
    return answer(experiment_comparison_document(left, right, found, table.names))


_NAME = Field(min_length=1, max_length=LONGEST_ID, pattern=r"^[^\x00-\x1f\x7f]+$")


class CheckpointCase(Closed):
    """A case as it is now: its dataset (empty for single tasks), its name, and Harbor's checksum of the task."""

    source: str = Field(max_length=LONGEST_ID, pattern=r"^[^\x00-\x1f\x7f]*$")
    name: Annotated[str, _NAME]
    checksum: Annotated[str, _NAME]


class Checkpoint(Closed):
    """`subset` adds and updates these cases, `replace` removes all others."""

    name: Annotated[str, _NAME]
    mode: Literal["subset", "replace"]
    cases: list[CheckpointCase] = Field(min_length=1, max_length=_MOST_CASES)


@router.put(
    "/suites/{path:suite}",
    auth=_PUBLISH,
    summary="Push a checkpoint of a suite",
    tags=["suites"],
    **documented("suite-checkpoint.v1", 400, 413),
)
def push_checkpoint(request: HttpRequest, suite: str, checkpoint: Checkpoint) -> HttpResponse:
    """A new revision of the suite, or the newest one when it is the same already, so it may be repeated."""
    only(request)
    user = access.require(person(request), access.START)
    if not 0 < len(suite) <= LONGEST_ID or not suite.isprintable() or suite != suite.strip():
        raise BadInput(f"suite: give an id of at most {LONGEST_ID} printable characters.")
    cases = [CaseContent(case.source, case.name, case.checksum) for case in checkpoint.cases]
    if len({(case.source, case.name) for case in cases}) < len(cases):
        raise BadInput("cases: a case stands there twice; give each pair of source and name once.")
    row = suite_named(suite, name=checkpoint.name, user_name=audit.name_of(user))
    revision = publish_checkpoint(row, cases, mode=checkpoint.mode, user_name=audit.name_of(user))
    return answer(suite_checkpoint_document(revision))


def _find(user: AnyUser, key: str) -> Experiment:
    try:
        return find_experiment(user, key)
    except BadInput as error:
        raise Http404(error.sentence) from None
