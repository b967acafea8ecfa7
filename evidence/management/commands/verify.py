"""Verifies a run's folder, a ZIP of it, or a suite result against signed statements, without the database."""

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.folder import Folder
from benchsite.lib.serializing import Exit
from evidence.origin.archive import ArchiveProblem
from evidence.origin.command import add_arguments, inputs
from evidence.origin.public_keys import KeyProblem
from evidence.origin.sources import SourceProblem, opened
from evidence.origin.statement import Statement
from evidence.origin.verifying import Difference, as_lines, verify
from evidence.serializers import verification_document
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, read_run
from runs.management.command import SiteCommand
from runs.services.refusals import BadInput


class Command(SiteCommand):
    help = (
        "Verify a run's folder, a ZIP of it, or a suite result, without the database: consistent, authentic, "
        "re-derivable. Exit 0 when all that can be tried holds, 1 when anything does not, 2 when the input or a key "
        "cannot be read."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=options["user"])  # nobody is asked: only the given files are read

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        try:
            asked = inputs(options)
            with opened(options["what"]) as (files, only_suite):
                found = verify(
                    files,
                    asked.keys,
                    expected=asked.expected,
                    rederive=rederive,
                    only_suite=only_suite,
                    envelope=asked.envelope,
                )
        except (ArchiveProblem, KeyProblem, SourceProblem) as problem:
            raise BadInput(problem.sentence, code=problem.code) from problem
        for line in as_lines(found):
            self.output.line(line)
        self.output.json(verification_document(found))
        return Exit.DONE if found.holds else Exit.FAILED


def rederive(files: Folder, statement: Statement) -> Iterator[Difference]:
    """The run classified again from its files, with what was known when its verdict was given."""
    facts = read_run(files, Expected(statement.run_id, statement.spec_sha256))
    judgement = judge(facts, cleanup_clean=statement.cleanup == "clean", quarantined=statement.quarantined)
    if judgement.suite.verdict.value != statement.verdict:
        sentence = f"The verdict is {judgement.suite.verdict.value} again, and {statement.verdict} was stated."
        yield Difference("result.verdict", "", sentence)
    stated = {trial.trial: (trial.bucket, trial.code) for trial in statement.trials}
    derived = {
        trial.trial: (result.bucket.value, result.code)
        for trial, result in zip(facts.trials, judgement.trials, strict=True)
    }
    for number in sorted(stated.keys() | derived.keys()):
        if stated.get(number) != derived.get(number):
            found, said = (" ".join(each.get(number, ("nothing",))) for each in (derived, stated))
            yield Difference("result.trial", f"trials/{number}", f"It is {found}, and {said} was stated.")
