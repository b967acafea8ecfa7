"""What experiments amount to, and how one compares with another."""

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from ninja import Router

from benchsite.api.answers import answer, documented
from benchsite.api.bearer import Bearer, person
from benchsite.api.reading import only
from evidence.experiments.reading import experiment_or_404, experiments_or_404, lines, tally_of
from evidence.serializers import experiment_comparison_document, experiment_statistics_document
from evidence.statistics.comparing import Setting, comparable, paired
from evidence.web.experiments.comparison import Table
from runs.services.tokens import Scope

router = Router(tags=["experiments"])
_READ = Bearer(Scope.READ)


@router.get(
    "/experiments/{experiment}/statistics",
    auth=_READ,
    summary="What an experiment's trials amount to",
    **documented("experiment-statistics.v1", 400, 404),
)
def get_statistics(request: HttpRequest, experiment: str) -> HttpResponse:
    """The pass rate with its interval, pass@k and pass^k, flaky cases, and the cost of a solved case."""
    only(request)
    found = experiment_or_404(person(request), experiment)
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
    left, right = experiments_or_404(person(request), [experiment, other])
    table = Table.of([left, right], left)

    def named(setting: Setting) -> Setting:
        return replace(setting, checksums={table.names[case]: sum_ for case, sum_ in setting.checksums.items()})

    differs = comparable(named(table.setting(left)), named(table.setting(right)))
    found = paired(table.tallies[left.pk], table.tallies[right.pk], differs)
    return answer(experiment_comparison_document(left, right, found, table.names))
