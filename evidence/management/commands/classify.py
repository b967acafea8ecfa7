"""Reads any copy of a run's folder and says what it amounts to, without the database."""

import os
import re
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.folder import Folder
from benchsite.lib.serializing import Exit
from evidence.imports.job import is_job_folder
from evidence.serializers import classification_document
from evidence.suite.judgement import RunJudgement, judge
from evidence.suite.run_facts import Expected, RunFacts, ignored_files, read_run
from evidence.trial.binding import BOUND_SINCE
from runs.management.command import SiteCommand
from runs.management.run_text import coverage
from runs.serializers.errors import exit_of_verdict
from runs.services.refusals import BadInput

# What the caller may know from elsewhere, by its name in `Expected`: its digits, and what it is.
_EXPECTED = {
    "run_id": (32, "the run that the folder should be of, by its whole id"),
    "spec_sha256": (64, "the hash of the confirmed spec, when you know it from elsewhere"),
    "folder_sha256": (64, "the hash of the folder's files, when you know it from elsewhere"),
}


class Command(SiteCommand):
    help = "Classify the trials of a run folder or a copy of it, without the database. The exit code is the verdict's."

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, metavar="FOLDER", help="a run's folder, or a copy of it")
        for name, (digits, what) in _EXPECTED.items():
            parser.add_argument(_flag(name), metavar="ID" if digits == 32 else "HASH", help=what)

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=options["user"])  # nobody is asked: only the given folder is read

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        directory: Path = options["directory"]
        if not os.path.isdir(directory):  # noqa: PTH112 - false for a name too long and for a folder above that is closed
            raise BadInput(f"There is no folder {directory} that can be opened.", code="input.no_folder")
        for name, (digits, _) in _EXPECTED.items():
            value: str | None = options[name]
            if value is not None and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is None:
                sentence = f"{_flag(name)}: write all {digits} digits, each one of 0 to 9 and a to f in lower case."
                raise BadInput(sentence, code="input.no_run_id" if digits == 32 else "input.no_sha256")
        if is_job_folder(directory) and "spec.json" not in Folder(directory).names():
            raise BadInput(
                f"{directory} is a job folder of Harbor, not a run's folder: nothing in it was proved here. "
                "manage.py experiment import reads it.",
                code="input.harbor_job",
            )
        facts = read_run(directory, Expected(**{name: options[name] for name in _EXPECTED}))
        # By the copied journal, which may be older than the run's last cleanup.
        clean = facts.journal is not None and all(resource.settled for resource in facts.journal.resources)
        judgement = judge(facts, cleanup_clean=clean)
        self._print(facts, judgement, ignored_files(directory, facts))
        return exit_of_verdict(judgement.suite.verdict)

    def _print(self, facts: RunFacts, judgement: RunJudgement, ignored: list[str]) -> None:
        results, suite = judgement.trials, judgement.suite
        rows = [
            [trial.trial, trial.task, result.bucket, result.code, result.sentence]
            for trial, result in zip(facts.trials, results, strict=True)
        ]
        self.output.table(("trial", "task", "result", "code", "why"), rows)
        if ignored:
            self.output.line(f"ignored, because a desktop system puts such files there: {', '.join(ignored)}")
        if facts.spec is not None and facts.spec.evidence_version < BOUND_SINCE:
            self.output.line("evidence of version 1: nothing but its times shows that the ledger is this run's")
        document = classification_document(facts, judgement, ignored)
        self.output.line(f"{suite.verdict}: {suite.sentence} {coverage(document['counts'])}")
        self.output.json(document)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
