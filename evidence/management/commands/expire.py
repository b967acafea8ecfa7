"""Removes the private evidence of runs that ended long ago, unless somebody ordered it to be kept."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser
from django.utils import timezone

from benchsite.lib import words
from benchsite.lib.serializing import Exit
from evidence.register.retention import Expiry, due, expire, kept_back, what_expires
from evidence.register.store import StorageFails
from evidence.serializers import expiry_document
from runs.management.command import SiteCommand
from runs.services import access
from runs.services.refusals import BadInput, Refusal


class Command(SiteCommand):
    help = (
        "Show, and with --apply remove, the private evidence and log lines of runs that ended more than "
        "BENCHSITE_RETENTION_DAYS ago. Results, verdicts, hashes and runs under a legal hold stay. A run's folder is "
        "removed on its own worker host only: run this there too."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--apply", action="store_true", help="remove; without it nothing is changed")
        parser.add_argument("--older-than", type=int, metavar="DAYS", help="instead of BENCHSITE_RETENTION_DAYS")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.RETAIN)
        asked = options["older_than"]
        days = settings.RETENTION_DAYS if asked is None else asked
        if asked is None and not days:
            sentence = "Nothing expires: set BENCHSITE_RETENTION_DAYS, or say --older-than DAYS."
            raise BadInput(sentence, code="retention.not_set")
        if not 0 <= days <= 36_500:
            raise BadInput("--older-than: give 0 to 36,500 days.", code="retention.bad_days")
        before = timezone.now() - timedelta(days=days)
        found, failed = [], 0
        for run in due(before):
            expiry = what_expires(run, folder=self._folder_here(run.key))
            if expiry.anything and options["apply"]:
                expiry, problem = self._remove(user, expiry)
                failed += problem
            if expiry.anything:
                found.append(expiry)
                self.output.line(_line(expiry, applied=options["apply"]))
        kept = kept_back(before)
        self._print_sums(found, kept, failed, applied=options["apply"])
        document = expiry_document(found, kept, ended_before=before, failed=failed, applied=options["apply"])
        self.output.json(document)
        return Exit.ERROR if failed else Exit.DONE

    def _remove(self, user: User, planned: Expiry) -> tuple[Expiry, int]:
        """(what was removed, 1 if it could not be): one run that cannot be removed does not keep the others."""
        from runs.engine.ending.work_deletion import WorkRefused, delete_evidence  # only workers import the engine

        try:
            remover = (lambda key: delete_evidence(settings.DATA, key)) if planned.folder else None
            return expire(user=user, run=planned.run, remove_folder=remover), 0
        except (Refusal, WorkRefused) as error:
            self.output.warn(f"run {planned.run.key}: {error.sentence}")
        except OSError as error:
            reason = error.sentence if isinstance(error, StorageFails) else error.strerror
            self.output.warn(f"run {planned.run.key}: {reason}; not all of it was removed, try again")
        return Expiry(planned.run, 0, 0, 0, folder=False), 1

    def _folder_here(self, key: str) -> bool:
        from runs.engine.ending.work_deletion import WorkRefused, holds_evidence

        try:
            return holds_evidence(settings.DATA, key)
        except WorkRefused:
            return True  # its removal is refused, and said

    def _print_sums(self, found: list[Expiry], kept: dict[str, int], failed: int, *, applied: bool) -> None:
        word = "removed" if applied else "would be removed with --apply"
        size = words.size(sum(expiry.bytes for expiry in found))
        self.output.line(
            f"{words.counted(len(found), 'run')}: {sum(expiry.files for expiry in found):,} files, {size} {word}; "
            f"{kept['held']} under a legal hold and {kept['not_clean']} not cleaned up keep everything"
            + (f"; {failed} could not be removed" if failed else "")
        )


def _line(expiry: Expiry, *, applied: bool) -> str:
    run, verb = expiry.run, "removed" if applied else "has"
    folder = ", its folder here" if expiry.folder else ""
    ended = f"{run.ended_at:%Y-%m-%d}" if run.ended_at else "unknown"
    return (
        f"run {run.key} ended {ended}: {verb} {words.counted(expiry.files, 'private file')}, "
        f"{words.size(expiry.bytes)}, {words.counted(expiry.log_lines, 'log line')}{folder}"
    )
