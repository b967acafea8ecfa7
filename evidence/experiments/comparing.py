"""Several experiments case by case: what pages and the HTTP API compare them by. A fixed number of queries."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evidence.experiments.reading import grouped, tallies
from evidence.models import Case, Experiment
from evidence.statistics.attempts import CaseTally, Tally
from evidence.statistics.comparing import Setting


@dataclass(frozen=True, slots=True)
class Table:
    """Every case of any of the experiments, by name, with its tally in each that ran it.

    `names` are as the jobs wrote them, with the dataset where two cases have one name; a page makes them visible.
    """

    experiments: Sequence[Experiment]
    baseline: Experiment
    tallies: Mapping[int, Tally]
    checksums: Mapping[int, Mapping[str, str]]
    names: Mapping[str, str]

    @classmethod
    def of(cls, experiments: Sequence[Experiment], baseline: Experiment) -> "Table":
        """Three queries, whatever their number."""
        checksums, pks = _checksums_of(experiments)
        rows = Case.objects.filter(pk__in=pks).order_by("name", "pk").values_list("pk", "name", "source")
        same = Counter(name for _pk, name, _source in rows)
        names = {
            str(pk): name + (f" ({source or 'single task'})" if same[name] > 1 else "") for pk, name, source in rows
        }
        return cls(experiments, baseline, tallies(experiments), checksums, names)

    def cells(self, case: str) -> list[CaseTally | None]:
        return [self.tallies[one.pk].cases.get(case) for one in self.experiments]

    def chosen(self, show: str) -> list[str]:
        """The cases of one tab, by name."""
        return [case for case in self.names if _fits(show, self.cells(case), self.at_baseline(case))]

    def at_baseline(self, case: str) -> CaseTally | None:
        return self.tallies[self.baseline.pk].cases.get(case)

    def setting(self, one: Experiment) -> Setting:
        overrides = one.overrides if isinstance(one.overrides, dict) else {}
        return Setting(one.trust, self.checksums[one.pk], one.main_reward, one.pass_threshold, overrides)


def _checksums_of(experiments: Sequence[Experiment]) -> tuple[dict[int, dict[str, str]], set[int]]:
    """The task checksum of each case in each experiment, empty where several or none were reported; and all cases."""
    seen: dict[int, dict[str, set[str]]] = {one.pk: defaultdict(set) for one in experiments}
    pks = set()
    for experiment, case, checksum in grouped(experiments):
        seen[experiment][str(case)].add(checksum)
        pks.add(case)
    return {
        pk: {case: next(iter(found)) if len(found) == 1 else "" for case, found in of.items()}
        for pk, of in seen.items()
    }, pks


def _fits(show: str, cells: Sequence[CaseTally | None], baseline: CaseTally | None) -> bool:
    rates = [cell.rate for cell in cells if cell is not None and cell.rate is not None]
    match show:
        case "differing":
            return len(set(rates)) > 1
        case "regressed":
            before = baseline.rate if baseline else None
            return before is not None and any(rate < before for rate in rates)
        case "flaky":
            return any(0 < rate < 1 for rate in rates)
        case "ungraded":
            return any(cell is not None and not cell.graded for cell in cells)
    return True
