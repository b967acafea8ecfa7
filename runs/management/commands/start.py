"""Previews and confirms in one go, or confirms an earlier preview; waits for the end if asked to."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs.management.choosing import add_choice, preview_of
from runs.management.following import follow
from runs.management.output import Exit, SiteCommand, exit_of
from runs.management.run_words import RUN_SCHEMA, TRIAL_HEADINGS, run_json, state_line, trial_rows
from runs.models import Run
from runs.refusals import BadInput
from runs.starting import confirm, confirm_by_hash, token_of


class Command(SiteCommand):
    help = "Start a run. Exit 0 when started, by its verdict with --wait; 2 bad input, 3 blocked."

    def add_own_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)
        parser.add_argument("--preview", help="confirm this earlier preview; needs --spec-sha256")
        parser.add_argument("--spec-sha256", help="the hash of the spec that was previewed")
        parser.add_argument("--accept", action="append", default=[], help="accept a check by name; may be repeated")
        parser.add_argument("--wait", action="store_true", help="wait for the end; Ctrl-C cancels the run")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        run = _start(user, options)
        if options["wait"]:
            run = follow(run, user=user, say=self.output.line)
            self.output.table(TRIAL_HEADINGS, trial_rows(run))
        else:
            self.output.line(state_line(run))
        self.output.json(RUN_SCHEMA, run_json(run))
        return exit_of(run)


def _start(user: User, options: dict[str, Any]) -> Run:
    if options["preview"]:
        if not options["spec_sha256"]:
            raise BadInput("Give --spec-sha256 with --preview: the hash that the preview showed.")
        return confirm_by_hash(
            user=user,
            preview_id=options["preview"],
            spec_sha256=options["spec_sha256"],
            accepted=options["accept"],
        )
    preview = preview_of(user, options)
    return confirm(user=user, preview_id=preview.pk, token=token_of(preview), accepted=options["accept"])
