"""Writes a run's evidence into one archive, with a list of hashes that `sha256sum -c` accepts."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Exit, error_document
from evidence.register.export import ExportRefused, export
from evidence.register.store import HashDiffers, StorageFails
from evidence.register.streaming import NotInStorage
from evidence.serializers import export_document
from runs.documents.run_spec import load_spec
from runs.management.command import SiteCommand
from runs.management.files import write_new
from runs.management.waiting import heartbeat
from runs.models import AuditKind, Run
from runs.services import access, audit
from runs.services.access import find_run


class Command(SiteCommand):
    help = (
        "Write a run's evidence to a new ZIP file with a list of hashes. Exit 3 when a known secret is inside, 4 "
        "when a stored file changed or is gone."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        parser.add_argument("file", type=Path, metavar="FILE", help="the archive to write; it must not exist yet")
        parser.add_argument("--public", action="store_true", help="only what every viewer may read")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW if options["public"] else access.READ_PRIVATE)
        run, target = find_run(options["run"]), options["file"]
        try:
            found = export(run, secrets=known_secrets(run), public_only=options["public"])
            with heartbeat(self.output, f"writing {target}"):
                write_new(target, found.chunks)
        except ExportRefused as refused:
            document = error_document(refused.code, refused.sentence, Exit.BLOCKED, paths=list(refused.paths))
            return self.output.error(document)
        except (HashDiffers, OSError) as error:  # what goes wrong with the archive itself is bad input
            lost = error if isinstance(error, HashDiffers | StorageFails) else NotInStorage()
            return self.output.error(error_document(lost.code, lost.sentence, Exit.ERROR))
        detail = {"bytes": found.size, "files": found.files, "public": options["public"]}
        audit.record(AuditKind.DOWNLOAD, user=user, run_id=run.pk, subject=found.name, detail=detail)
        self.output.line(f"{found.files} files, {found.size:,} bytes: {target}")
        self.output.json(export_document(run, found))
        return Exit.DONE


def known_secrets(run: Run) -> list[str]:
    """The endpoint's credential when this host holds it; elsewhere what was found while ingesting has to do."""
    from runs.engine.host.credentials import CredentialError, read_credential  # only workers hold credentials

    try:
        value = read_credential(load_spec(run.spec.encode()).content.endpoint.credential)
    except (CredentialError, DocumentError):
        return []
    return [value] if value else []
