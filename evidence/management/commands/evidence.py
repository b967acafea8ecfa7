"""Lists the register of a run's evidence, and gets single files out of it by their id."""

import sys
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib import words
from benchsite.lib.serializing import Exit, error_document
from evidence.models import Artifact
from evidence.register.store import HashDiffers
from evidence.register.streaming import NoSuchEvidence, NotInStorage, artifact_for, artifacts_for, stream_file
from evidence.serializers import evidence_document, evidence_file_document
from runs.management.command import SiteCommand
from runs.management.files import write_new
from runs.models import Run
from runs.services.access import find_run
from runs.services.refusals import BadInput

STDOUT = "-"
_HEADINGS = ("id", "trial", "kind", "size", "privacy", "state", "path", "sha256")


class Command(SiteCommand):
    help = (
        "List the files that are kept of a run, or write one of them to a new file. Its hash is checked while it "
        "is written: exit 4, and no file, when the stored bytes are not those that were registered."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run, or its first 8 characters or more")
        parser.add_argument("--get", metavar="ID", help="the id of one file, from the list")
        parser.add_argument("--output", metavar="FILE", help="where to write it: a new file, or - for stdout")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        if (options["get"] is None) != (options["output"] is None):
            raise BadInput("--get ID and --output FILE belong together; --output - writes to stdout.")
        if options["output"] == STDOUT and options["json"]:
            raise BadInput("--output - writes the file itself to stdout; leave --json out.")
        run = find_run(options["run"])
        if options["get"] is None:
            return self._list(user, run)
        try:
            return self._get(user, _file_of(user, run, options["get"]), options["output"])
        except (HashDiffers, NotInStorage) as error:
            return self.output.error(error_document(error.code, error.sentence, Exit.ERROR))

    def _list(self, user: User, run: Run) -> Exit:
        files = list(artifacts_for(user, run).order_by("trial", "path"))
        if self.output.on_terminal:
            for file in files:
                self._print(file)
        else:  # where lines may be as long as they like
            self.output.table(_HEADINGS, [_row(file) for file in files])
        if not files:
            self.output.line("nothing is registered" if run.terminal else "nothing is registered before the run ends")
        self.output.json(evidence_document(run, files))
        return Exit.DONE

    def _print(self, file: Artifact) -> None:
        """Two lines, which fit into 80 columns but for a path that does not: the id can be copied for --get."""
        key, _trial, kind, size, privacy, state, path, _sha256 = _row(file)
        self.output.line(str(path))
        self.output.line(f"  {key}  {size}, {state}, {privacy}, {kind}" if file.readable else f"  {state}, {kind}")

    def _get(self, user: User, file: Artifact, target: str) -> Exit:
        if target == STDOUT:
            stream = sys.stdout.buffer
            for piece in stream_file(user, file, verified_first=True):
                stream.write(piece)
            stream.flush()
            return Exit.DONE
        write_new(Path(target), stream_file(user, file))
        self.output.line(f"{file.path}: {words.size(file.size)} written to {target}, SHA-256 {file.sha256}")
        self.output.json(evidence_file_document(file, target))
        return Exit.DONE


def _file_of(user: User, run: Run, key: str) -> Artifact:
    remedy = f"List the ids with: manage.py evidence {run.short}"
    try:
        found = artifact_for(user, key)
    except NoSuchEvidence as error:
        raise NoSuchEvidence(f"There is no file with the id {key}. {remedy}") from error
    if found.run_id != run.pk:
        raise NoSuchEvidence(f"The file with the id {key} is not of run {run.key}. {remedy}")
    return found


def _row(file: Artifact) -> list[object]:
    size = words.size(file.size) if file.readable else words.NOT_RECORDED
    state = file.get_state_display().lower()
    privacy = "public" if file.public else "private"
    return [
        file.key if file.readable else "-", file.trial or "run", file.kind, size, privacy, state, file.path,
        file.sha256 or "-",
    ]  # fmt: skip
