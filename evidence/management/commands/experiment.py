"""Imports finished Harbor jobs as experiments, and shows what is there."""

import time
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from benchsite.lib.words import counted
from evidence.experiments.importing import MODES, ImportOptions, JobImported, import_job
from evidence.experiments.listing import counts_of, find_experiment, listed
from evidence.experiments.unproved import unproved
from evidence.imports.outcomes import Source
from evidence.models import Experiment
from evidence.serializers import experiment_document, experiment_import_document, experiments_document
from runs.management.command import SiteCommand
from runs.management.printing import Progress
from runs.services.refusals import BadInput

_ACTIONS = ("import", "list", "show")
_MOST = 200
_EVERY_S = 1.0


class Command(SiteCommand):
    help = "Import a finished Harbor job as experiments, or show what was imported."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=_ACTIONS, metavar="|".join(_ACTIONS), help="what to do")
        parser.add_argument(
            "target", nargs="?", metavar="JOB|EXPERIMENT", help="the folder that `harbor run` wrote; for show an id"
        )
        parser.add_argument("--experiment-id", default="", metavar="ID", help="in place of the job's id")
        parser.add_argument("--name", default="", metavar="TEXT", help="in place of the folder's name")
        parser.add_argument("--suite-id", default="", metavar="ID", help="the suite that its tasks are cases of")
        parser.add_argument("--publish-suite", choices=MODES, help="also publish a checkpoint of the suite")
        parser.add_argument("--main-reward", default="reward", metavar="NAME", help="the reward that decides (reward)")
        parser.add_argument("--pass-threshold", default="1.0", metavar="NUMBER", help="the least that passes (1.0)")
        parser.add_argument("--no-artifacts", action="store_true", help="keep only the files that results derive from")
        parser.add_argument("--dry-run", action="store_true", help="say what would be imported, and write nothing")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        action, target = options["action"], options["target"]
        if action == "list":
            if target is not None:
                raise BadInput("list takes no name; manage.py experiment show EXPERIMENT shows one.")
            return self._list(user)
        if target is None:
            wanted = "Name the job's folder." if action == "import" else "Name the experiment, by its id."
            raise BadInput(wanted, code="input.no_target")
        return self._import(user, options) if action == "import" else self._show(find_experiment(user, target))

    def _import(self, user: User, options: dict[str, Any]) -> Exit:
        chosen = ImportOptions(
            experiment_id=options["experiment_id"],
            name=options["name"],
            suite_id=options["suite_id"],
            publish_suite=options["publish_suite"],
            main_reward=options["main_reward"],
            pass_threshold=_number(options["pass_threshold"]),
            artifacts=not options["no_artifacts"],
            dry_run=options["dry_run"],
        )
        with self.output.progress() as progress:
            result = import_job(Path(options["target"]), chosen, user=user, progress=_NowAndThen(progress))
        for note in result.warnings:
            self.output.warn(f"{note.where}: {note.sentence}" if note.where else note.sentence)
        for planned, sentence in result.failed:
            self.output.warn(f"{planned.title} was not imported: {sentence} The same command again imports only it.")
        self._print(result)
        self.output.json(experiment_import_document(result))
        return Exit.ERROR if result.failed else Exit.DONE

    def _print(self, result: JobImported) -> None:
        rows = []
        for each in result.imported:
            part = each.report
            graded = sum(trial.outcome.graded for trial in part.trials)
            passed = sum(trial.outcome == "reported_passed" for trial in part.trials)
            rows.append([each.experiment_id, each.title, f"{passed} passed of {graded} graded of {part.requested}"])
        self.output.table(("experiment", "what", "reported"), rows)
        verb = "would be imported" if result.options.dry_run else "imported"
        self.output.line(f"{counted(len(result.imported), 'experiment')} {verb}. {unproved(Source.IMPORTED)[1]}")

    def _list(self, user: User) -> Exit:
        rows = list(listed(user)[:_MOST])
        self.output.table(
            ("experiment", "candidate", "dataset", "trust", "source", "status", "result"),
            [
                [row.experiment_id, row.candidate, row.dataset, row.trust, row.source, _status(row), _counts(row)]
                for row in rows
            ],
        )
        self.output.json(experiments_document(rows))
        return Exit.DONE

    def _show(self, row: Experiment) -> Exit:
        trials = list(row.trials.select_related("case").prefetch_related("scores"))
        self.output.line(f"{row.name}: {_status(row)}, {_counts(row)} ({row.trust}, {row.source})")
        self.output.table(
            ("case", "attempt", "outcome", "rewards", "why"),
            [
                [
                    trial.case.name,
                    trial.attempt,
                    trial.outcome or "goes on",
                    ", ".join(f"{score.name} {score.number:g}" for score in trial.scores.all()),
                    trial.error or trial.agent_error,
                ]
                for trial in trials
            ],
        )
        if row.error:
            self.output.line(row.error)
        if sentence := unproved(row.source)[1]:
            self.output.line(sentence)
        self.output.json(experiment_document(row, trials))
        return Exit.DONE


class _NowAndThen:
    """Reports a step when the last one was told a while ago; a terminal's last line shows each."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._last = progress, time.monotonic()

    def __call__(self, text: str) -> None:
        self._progress.status(text)
        now = time.monotonic()
        if now - self._last >= _EVERY_S:
            self._last = now
            self._progress.line(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput("--pass-threshold: give a finite number, such as 1.0.", code="import.bad_option") from None


def _status(row: Experiment) -> str:
    return row.get_result_display() or row.get_state_display()


def _counts(row: Experiment) -> str:
    counts = counts_of(row)
    return f"{counts['passed']} passed of {counts['graded']} graded of {row.requested} requested"
