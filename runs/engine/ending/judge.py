"""The judge of a run as the engine knows it: `evidence` knows the engine, never the other way round."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from runs.checks.check import Check
from runs.models import Cleanup, Run
from runs.outcomes.buckets import Verdict
from runs.services.transitions import Failure


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run amounts to. ``codes`` are those of its trials, in their order; ``interrupted`` as its record says."""

    verdict: Verdict
    failure: Failure | None
    interrupted: bool
    codes: tuple[str, ...]


class Judge(Protocol):
    def keep(self, run: Run, folder: Path, *, secrets: Iterable[str]) -> None:
        """Keep the run's evidence. Raises OSError; repeatable."""

    def judge(self, run: Run, folder: Path, *, cleanup: Cleanup, secrets: Iterable[str]) -> Judged:
        """Judge a run whose evidence is kept and whose resources went as ``cleanup`` says; repeatable."""

    def cleaned(self, run: Run, folder: Path) -> None:
        """Say of a run that was judged before that a later cleanup changed its folder; repeatable, raises OSError."""

    def checks(self) -> list[Check]:
        """What of judging and signing cannot be done on this worker, as notes with a remedy."""


def the_judge() -> Judge:
    """The one that the setting ``RUN_JUDGE`` names; loaded only when a run ends."""
    judge: Judge = import_string(settings.RUN_JUDGE)()
    return judge
