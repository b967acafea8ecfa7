"""Previews and confirms in one go, or confirms an earlier preview; waits for the end if asked to."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.arguments import add_choice, is_chosen, preview_of
from runs.management.command import SiteCommand
from runs.management.reports import add_report_options, check_reports, report_run
from runs.management.run_text import print_run, state_line
from runs.management.waiting import Interrupts, follow, interrupts
from runs.models import Run
from runs.serializers.runs import run_document
from runs.services.refusals import BadInput
from runs.services.starting import confirm, confirm_by_hash, token_of


class NotStarted(KeyboardInterrupt):
    sentence = "Stopped by Ctrl-C before the start; nothing was started."


class Command(SiteCommand):
    help = (
        "Start a run: preview it, check it, and put it into its worker's queue. Without --wait exit 0 once it is "
        "queued; with --wait the exit code is the verdict's. Ctrl-C or TERM while waiting cancels the run and "
        "waits for its end; a second one stops waiting."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)
        parser.add_argument("--preview", metavar="ID", help="confirm this earlier preview; needs --spec-sha256")
        parser.add_argument("--spec-sha256", metavar="HASH", help="the hash of the spec that was previewed")
        parser.add_argument(
            "--accept", action="append", default=[], metavar="CHECK",
            help="accept by name a check that the preview asks to accept; may be repeated",
        )  # fmt: skip
        parser.add_argument("--wait", action="store_true", help="wait until the run has ended and print each change")
        add_report_options(parser)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        if not options["wait"] and (options["junit"] or options["summary"]):
            raise BadInput("--junit and --summary report a run that has ended; add --wait.")
        check_reports(options)
        if options["wait"]:
            with interrupts() as received, self.output.progress() as progress:
                run = _start(user, options, received)
                run = follow(run, user=user, progress=progress, interrupts=received)
            print_run(self.output, run)
            return report_run(self.output, run, run_document(run), options)
        run = _start(user, options)
        self.output.line(state_line(run))
        self.output.line(f"follow it with: manage.py logs {run.short} --follow")
        self.output.json(run_document(run))
        return Exit.DONE


def _start(user: User, options: dict[str, Any], interrupts: Interrupts | None = None) -> Run:
    if bool(options["preview"]) != bool(options["spec_sha256"]):
        raise BadInput("--preview ID and --spec-sha256 HASH belong together; give what the preview showed.")
    if options["preview"]:
        if is_chosen(options) or options["worker"] != settings.WORKER_NAME:
            raise BadInput("--preview ID says what to run; leave out the options that choose it, or the preview.")
        return confirm_by_hash(
            user=user, preview_id=options["preview"], spec_sha256=options["spec_sha256"], accepted=options["accept"]
        )
    preview = preview_of(user, options)
    if interrupts is not None and interrupts.received:
        raise NotStarted
    return confirm(user=user, preview_id=preview.pk, token=token_of(preview), accepted=options["accept"])
