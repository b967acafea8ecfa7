"""The facts of a run, read from its folder: bounded and strict.

Never follows a link, never raises for what the files hold: every trouble is a check that failed or a fact that is
missing. Works on any copy of the folder; nothing is written.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchsite.lib.canonical import canonical_sha256
from benchsite.lib.canonical import load_object as load_canonical
from benchsite.lib.folder import FileState, Folder
from benchsite.lib.foreign_files import is_foreign
from benchsite.lib.problems import DocumentError
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.reading.clocks import Interval
from evidence.reading.own_records import run_record_problem
from evidence.reading.proofs import Proof, equal, mapping
from evidence.reading.tree import MAX_FILES, TreeTooLarge, tree_files, tree_sha256
from evidence.trial.binding import run_binding_checks
from evidence.trial.container_checks import run_container_checks
from evidence.trial.facts import TrialFacts
from evidence.trial.files import RunContext, text
from evidence.trial.reading import read_trial
from evidence.trial.reviewed_files import read_manifest
from evidence.trial.run_checks import journal_checks
from runs.checks.readiness import ENDPOINT_CLASSES
from runs.documents import ledger as ledgers
from runs.documents.ledger import LedgerReport, read_ledger
from runs.documents.run_spec import MAX_SPEC_BYTES, RunSpec, parse_spec
from runs.documents.run_spec import SCHEMA as SPEC_SCHEMA
from runs.ownership.document import JournalDocument, JournalError
from runs.ownership.format import load as load_journal

MAX_RUN_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as its files tell it. `trials` has one entry per task of the spec, in the spec's order; of a spec that
    cannot be read (None) one for each folder, of which nothing is believed.
    `checks` are those of the whole run, which every trial's checks begin with."""

    run_id: str | None
    spec: RunSpec | None
    spec_sha256: str | None
    document: dict[str, Any]
    journal: JournalDocument | None
    ledger: LedgerReport
    checks: tuple[Proof, ...]
    trials: tuple[TrialFacts, ...]
    cancel_requested: bool
    interrupted: bool
    failure: dict[str, Any] = field(default_factory=dict)

    @property
    def broke(self) -> bool:
        """Whether our own side could not carry the run out. An endpoint that was not ready is not our side."""
        return self.interrupted or (bool(self.failure) and self.failure.get("class") not in ENDPOINT_CLASSES)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the caller knows of the run from elsewhere (the database, the command's options); None where it does not,
    and then the folder's own records are compared with one another only."""

    run_id: str | None = None
    spec_sha256: str | None = None
    folder_sha256: str | None = None


def read_run(directory: Path | Folder, expected: Expected = Expected()) -> RunFacts:
    """The facts of a run's folder, or of a ZIP of it, held against what the caller expects of it."""
    folder = directory if isinstance(directory, Folder) else Folder(directory)
    spec, found_sha256, unreadable, invalid = _spec(folder)
    document, run_problem = _document(folder)
    journal, journal_problem = _journal(folder)
    written = folder.read("ledger.jsonl", limit=ledgers.MAX_BYTES)
    ledger = read_ledger(written.data if written.state is FileState.OK else None)
    manifest, manifest_check = read_manifest(folder, spec)
    checks = (
        Proof("spec.readable", "integrity.spec_unreadable", not unreadable, unreadable),
        Proof("run.readable", "integrity.run_unreadable", not run_problem, run_problem),
        Proof("journal.readable", "integrity.journal_unreadable", not journal_problem, journal_problem),
        *_identity_checks(document, journal, found_sha256, expected),
        *_folder_checks(folder, expected),
        Proof("spec.valid", "integrity.spec_unreadable", not invalid, invalid),
        manifest_check,
        *(run_container_checks(document, journal, spec) if spec else []),
        *(_trial_folder_checks(folder, spec) if spec else []),
        Proof("run.times", "integrity.times_inverted", not Interval.of(document).inverted),
        *(
            run_binding_checks(Path(os.path.realpath(folder.root)).name, document, journal, spec, found_sha256, ledger)
            if spec
            else []
        ),
        *(journal_checks(document, journal, spec) if spec else []),
    )
    if spec is None:
        # The folders are all that says which trials there were.
        names = [name for name in folder.names("trials") if name.isascii() and name.isdecimal() and len(name) < 5]
        trials = [TrialFacts(trial=number, task="unknown", checks=checks) for number in sorted(map(int, names))]
    else:
        whole = _ledger_check(ledger, document)
        context = RunContext(folder, spec, document, manifest, journal, ledger, checks, whole)
        trials = [read_trial(context, task) for task in spec.tasks]
    return RunFacts(
        run_id=text(document.get("run_id")),
        spec=spec,
        spec_sha256=found_sha256,
        document=document,
        journal=journal,
        ledger=ledger,
        checks=checks,
        trials=tuple(trials),
        cancel_requested=document.get("cancel_requested_at") is not None,
        interrupted=document.get("interrupted") is True,
        failure=mapping(document.get("failure")),
    )


def ignored_files(directory: Path, facts: RunFacts) -> list[str]:
    """What a desktop system put into the copy, sorted; a file of such a name that a transfer recorded is judged."""
    judged = {check.name for trial in facts.trials for check in trial.checks}
    listing = Folder(directory).walk(limit=MAX_FILES)
    found = (entry.path for entry in listing.entries if is_foreign(entry.path))
    return sorted(path for path in found if f"kept.{path}" not in judged)


def _spec(folder: Folder) -> tuple[RunSpec | None, str | None, str, str]:
    """The spec and its hash; and why it cannot be read, or is no spec although its hash can be compared."""
    read = folder.read("spec.json", limit=MAX_SPEC_BYTES)
    if read.state is not FileState.OK:
        return None, None, read.state.value, ""
    try:
        document = load_canonical(read.data, max_bytes=MAX_SPEC_BYTES)
    except DocumentError as error:
        return None, None, error.code, ""
    if document.get("schema") != SPEC_SCHEMA:
        return None, None, "unsupported schema", ""
    found = canonical_sha256(document)
    try:
        return parse_spec(document).content, found, "", ""
    except DocumentError as error:
        return None, found, "", f"{error.problems[0].path}: {error.code}"


def _document(folder: Folder) -> tuple[dict[str, Any], str]:
    """The run's own record and, when it cannot be believed, why."""
    read = folder.read("run.json", limit=MAX_RUN_BYTES)
    if read.state is not FileState.OK:
        return {}, read.state.value
    try:
        document = load_object(read.data, items=20_000)
    except JsonProblem as problem:
        return {}, problem.code
    found = run_record_problem(document)
    return ({}, found) if found else (document, "")


def _journal(folder: Folder) -> tuple[JournalDocument | None, str]:
    read = folder.read("journal.json", limit=1024 * 1024)
    if read.state is not FileState.OK:
        return None, read.state.value
    try:
        return load_journal(read.data), ""
    except JournalError as error:
        return None, error.code


def _ledger_check(ledger: LedgerReport, document: dict[str, Any]) -> Proof:
    """The ledger of an interrupted run may lack its end, and so may that of a run whose engine did not answer at the
    end, or whose gateway had died; what is there must still hold. The trials of a dead gateway are judged by its
    death (`evidence.trial.own_failures`)."""
    fault = ledger.fault.code if ledger.fault else ""
    gateway = mapping(document.get("gateway"))
    died, unread = gateway.get("died") is not None, gateway.get("closed") is False
    excused = (document.get("interrupted") is True or unread or died) and fault == "ledger.not_closed"
    excused = excused or (died and fault == "ledger.torn_line")
    return Proof("ledger.whole", "integrity.ledger_broken", not fault or excused, fault)


def _identity_checks(
    document: dict[str, Any], journal: JournalDocument | None, found: str | None, expected: Expected
) -> list[Proof]:
    checks = [
        equal(
            "spec.sha256",
            "integrity.spec_mismatch",
            document.get("spec_sha256"),
            found,
            "the run's record has another hash",
        )
    ]
    if expected.spec_sha256 is not None:
        why = "another hash was expected"
        checks.append(equal("spec.confirmed", "integrity.spec_mismatch", expected.spec_sha256, found, why))
    if expected.run_id is not None:
        why = "another run was expected"
        checks.append(equal("run.expected", "integrity.run_identity", expected.run_id, document.get("run_id"), why))
    if journal is not None:
        why = "the ownership journal is another run's"
        checks.append(equal("run.journal", "integrity.run_identity", document.get("run_id"), journal.run_id, why))
    return checks


def _folder_checks(folder: Folder, expected: Expected) -> list[Proof]:
    if expected.folder_sha256 is None:
        return []
    try:
        found = tree_sha256(tree_files(folder))
    except TreeTooLarge as error:
        found = str(error)
    return [equal("folder.expected", "integrity.folder_mismatch", expected.folder_sha256, found)]


def _trial_folder_checks(folder: Folder, spec: RunSpec) -> list[Proof]:
    """No folder may stand beside the requested trials."""
    expected = {str(task.ordinal) for task in spec.tasks}
    foreign = [name for name in folder.names("trials") if name not in expected and not is_foreign(name)]
    return [Proof("trials.expected", "integrity.foreign_trial", not foreign, f"other names in trials/: {len(foreign)}")]
