"""Reads any copy of a run's folder and says what it amounts to, without the database."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from evidence.suite.judgement import RunJudgement, judge
from evidence.suite.run_facts import RunFacts, read_run
from evidence.trial.document import trial_document
from runs.management.output import Exit, SiteCommand
from runs.management.run_words import coverage
from runs.outcomes.buckets import Verdict
from runs.services.refusals import BadInput

SCHEMA = "benchsite.classification/v1"
_EXITS = {Verdict.PASSED: Exit.DONE, Verdict.FAILED: Exit.FAILED, Verdict.CANCELLED: Exit.CANCELLED}


class Command(SiteCommand):
    help = "Classify the trials of a copied run folder. The exit code is that of the verdict."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, help="a run's folder, or a copy of it")
        parser.add_argument("--spec-sha256", help="the confirmed spec's hash, when it is known from elsewhere")

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=options["user"])  # nobody is asked: only the given folder is read

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        directory: Path = options["directory"]
        if not directory.is_dir():
            raise BadInput(f"There is no folder {directory}.", code="input.no_folder")
        facts = read_run(directory, spec_sha256=options["spec_sha256"])
        judgement = judge(facts, cleanup_clean=_is_clean(facts))
        self._print(facts, judgement)
        return _EXITS.get(judgement.suite.verdict, Exit.ERROR)

    def _print(self, facts: RunFacts, judgement: RunJudgement) -> None:
        results, suite = judgement.trials, judgement.suite
        rows = [
            [trial.trial, trial.task, result.bucket, result.code, result.sentence]
            for trial, result in zip(facts.trials, results, strict=True)
        ]
        self.output.table(("trial", "task", "result", "code", "why"), rows)
        counts = {name: getattr(suite.counts, name) for name in type(suite.counts).__dataclass_fields__}
        self.output.line(f"{suite.verdict}: {suite.sentence} {coverage(counts)}")
        checks = [check for check in facts.checks if not check.ok]
        self.output.json(
            SCHEMA,
            {
                "run_id": facts.run_id,
                "spec_sha256": facts.spec_sha256,
                "verdict": suite.verdict.value,
                "sentence": suite.sentence,
                "counts": counts,
                "failed_checks": [{"name": check.name, "code": check.code} for check in checks],
                "trials": [trial_document(trial, each) for trial, each in zip(facts.trials, results, strict=True)],
            },
        )


def _is_clean(facts: RunFacts) -> bool:
    """By the copied journal, which may be older than the run's last cleanup."""
    return facts.journal is not None and all(resource.settled for resource in facts.journal.resources)
