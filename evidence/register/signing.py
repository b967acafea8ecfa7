"""Signing what a run amounts to, over what is stored of it: a worker's statement, and the site's of what it publishes.

A statement is written to the run's folder first, then registered, then recorded in a row. Killed anywhere between, the
run's end is made again: facts that are the same keep the very statement that is there; others make a new one, which
names each earlier one that it replaces.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from benchsite.lib.folder import FileState, Folder, printable
from benchsite.lib.redaction import Scrubber
from evidence.models import Artifact, ArtifactState, RunStatement, SigningKey, StatementReason
from evidence.origin.envelope import (
    MAX_BYTES,
    Envelope,
    EnvelopeProblem,
    is_signed_by,
    read_envelope,
    sign,
    write_envelope,
)
from evidence.origin.statement import (
    COUNTS,
    PUBLISHED,
    RUN_ENVELOPE,
    SUITE_ENVELOPE,
    Statement,
    StatementProblem,
    Stored,
    Trial,
    read_statement,
    write_statement,
)
from evidence.reading.tree import TreeFile, TreeTooLarge, tree_files
from evidence.register import store
from evidence.register.ingest import register_bytes, register_files, searched_secrets
from evidence.register.keys import CannotSign, public_key, signing_key
from evidence.suite.judgement import RunJudgement
from evidence.suite.run_facts import RunFacts
from runs.models import Cleanup, Run
from runs.ownership.storage import replace_whole

log = logging.getLogger(__name__)

JOURNAL_PATH = "journal.json"
# What a verdict can be given with: nothing is judged before its cleanup, and what a person declares comes later.
_CLEANUPS = {Cleanup.CLEAN: "clean", Cleanup.FAILED: "failed"}


def sign_run(
    run: Run,
    folder: Path,
    facts: RunFacts,
    judgement: RunJudgement,
    *,
    verdict: str,
    quarantined: bool,
    secrets: Iterable[str] = (),
) -> RunStatement | None:
    """State what a run that was just judged amounts to, sign it when this host has a key, and countersign likewise.

    None when its folder cannot be listed. Repeatable. Raises OSError.
    """
    secrets = list(secrets)
    for path in PUBLISHED:
        _lay_down(run, folder, path)
    suite = judgement.suite
    counts = {name: int(getattr(suite.counts, name)) for name in suite.counts.__dataclass_fields__}
    statement = _with_files(
        Statement(
            role="worker",
            run_id=run.key,
            spec_sha256=run.spec_sha256,
            verdict=verdict,
            counts=counts,
            signed_at=timezone.now(),
            by=settings.WORKER_NAME,
            published={},
            trials=tuple(
                Trial(trial.trial, result.bucket.value, result.code)
                for trial, result in zip(facts.trials, judgement.trials, strict=True)
            ),
            cleanup=_CLEANUPS[Cleanup(run.cleanup)],
            quarantined=quarantined,
        ),
        run,
        folder,
        secrets,
    )
    if statement is None:
        return None
    again = (folder / RUN_ENVELOPE).exists()
    reason = StatementReason.AGAIN if again else StatementReason.ENDED
    row = _make(run, folder, statement, reason, secrets)
    _countersign(run, verdict, counts, folder, secrets)
    return row


def sign_again(run: Run, folder: Path, reason: StatementReason, *, secrets: Iterable[str] = ()) -> RunStatement | None:
    """State anew what is in the folder of a run that has ended, when it is not what was stated before.

    None when nothing was ever stated, when what was signed cannot be signed again, and when more differs than what a
    cleanup writes: nobody vouches for files that changed since the run ended. Raises OSError.
    """
    secrets = list(secrets)
    before = _existing(Folder(folder), RUN_ENVELOPE)
    if before is None or run.verdict not in (None, before[1].verdict):
        return None
    register_files(run, folder, [JOURNAL_PATH], secrets=secrets)
    statement = _with_files(replace(before[1], signed_at=timezone.now()), run, folder, secrets)
    if statement is None or _fixed(statement) != _fixed(before[1]):
        log.warning("run %s: its folder is not as it was stated, so it is not signed again", run.key)
        return None
    row = _make(run, folder, statement, reason, secrets)
    countersign(run, folder=folder, secrets=secrets)
    return row


def countersign(run: Run, *, folder: Path | None = None, secrets: Iterable[str] = ()) -> RunStatement | None:
    """Sign what the site publishes of a run that has ended, when this host has the site's key and nobody did before.

    `folder` is the run's when it lies here. None when there is no key, or nothing that could be signed. What the rows
    say is signed, and nothing that the storage alone says. Raises StorageFails.
    """
    if not run.terminal or run.verdict is None:
        return None
    return _countersign(run, run.verdict, {name: getattr(run, f"count_{name}") for name in COUNTS}, folder, secrets)


def _countersign(
    run: Run, verdict: str, counts: Mapping[str, int], folder: Path | None, secrets: Iterable[str]
) -> RunStatement | None:
    suite = Artifact.objects.filter(run=run, path=PUBLISHED[0], public=True).first()
    worker = run.statements.filter(role="worker").first()
    if suite is None or worker is None:
        return None
    try:
        private, key = signing_key("site")
    except CannotSign:
        return None
    statement = Statement(
        role="site",
        run_id=run.key,
        spec_sha256=run.spec_sha256,
        verdict=verdict,
        counts=counts,
        signed_at=timezone.now(),
        by=key.name,
        published=_published(run),
        statement_sha256=worker.payload_sha256,
    )
    with transaction.atomic():
        Run.objects.select_for_update().only("pk").get(pk=run.pk)  # two exports at once make one statement
        before = _registered(run, SUITE_ENVELOPE)
        if before is not None and _same(before[1], statement) and _is_good_enough(before[0], key):
            if folder is not None:
                _lay_down(run, folder, SUITE_ENVELOPE)
            return None
        payload = write_statement(statement)
        data = write_envelope(Envelope(payload, (sign(payload, private),)))
        register_bytes(run, SUITE_ENVELOPE, data, secrets=secrets)
        row = _record(run, statement, Envelope(payload, ()).payload_sha256, key, StatementReason.ENDED, "")
    if folder is not None:
        _write(folder / SUITE_ENVELOPE, data)
    return row


def _make(
    run: Run, folder: Path, statement: Statement, reason: StatementReason, secrets: list[str]
) -> RunStatement | None:
    try:
        private, key = signing_key(statement.role)
        unsigned = ""
    except CannotSign as error:
        private, key, unsigned = None, None, error.code
    before = _existing(Folder(folder), RUN_ENVELOPE)
    if before is not None:
        envelope, old = before
        if _same(old, statement) and _is_good_enough(envelope, key):
            register_files(run, folder, [RUN_ENVELOPE], secrets=secrets)
            return _record(run, old, envelope.payload_sha256, _key_of(envelope), reason, unsigned)
        if key is None and envelope.signatures:
            return None  # a statement that is signed is not replaced by one that is not
        _record(run, old, envelope.payload_sha256, _key_of(envelope), StatementReason.ENDED, "")
        statement = replace(statement, replaces=(*old.replaces, envelope.payload_sha256))
    payload = write_statement(statement)
    envelope = Envelope(payload, () if private is None else (sign(payload, private),))
    _write(folder / RUN_ENVELOPE, write_envelope(envelope))
    register_files(run, folder, [RUN_ENVELOPE], secrets=secrets)
    return _record(run, statement, envelope.payload_sha256, key, reason, unsigned)


def _record(
    run: Run, statement: Statement, payload_sha256: str, key: SigningKey | None, reason: StatementReason, unsigned: str
) -> RunStatement:
    values = {"role": statement.role, "key": key, "signed_at": statement.signed_at, "reason": reason}
    if key is None:
        values["unsigned"] = unsigned or "signing.key_unknown"
    row, _ = RunStatement.objects.get_or_create(run=run, payload_sha256=payload_sha256, defaults=values)
    return row


def _with_files(statement: Statement, run: Run, folder: Path, secrets: list[str]) -> Statement | None:
    """The same about what is stored now: the folder's files, how the register holds them, the published documents.

    None when there are too many, or a name is no text or holds a known secret: then nothing can be said of them.
    """
    try:
        files = tuple(tree_files(Folder(folder), foreign=True))
    except TreeTooLarge:
        return None
    names = "/".join(file.path for file in files)
    if printable(names) != names or Scrubber(searched_secrets(run, secrets)).found_in(names.encode()):
        return None
    rows = {artifact.path: artifact for artifact in Artifact.objects.filter(run=run)}
    stored = {}
    for file in files:
        row = rows.get(file.path)
        if row is None:
            stored[file.path] = Stored("not_registered", 0, None)
        elif not row.readable:
            stored[file.path] = Stored(row.state, 0, None)
        elif (row.size, row.sha256) != (file.size, file.sha256):
            stored[file.path] = Stored(row.state, row.size, row.sha256)
    return replace(statement, files=files, stored_otherwise=stored, published=_published(run))


def _published(run: Run) -> dict[str, str]:
    found = Artifact.objects.filter(run=run, path__in=PUBLISHED, state=ArtifactState.OK)
    return dict(found.values_list("path", "sha256"))


def _registered(run: Run, path: str) -> tuple[Envelope, Statement] | None:
    artifact = Artifact.objects.filter(run=run, path=path).first()
    if artifact is None or not artifact.readable or not store.verify(artifact):
        return None
    with store.open_stored(artifact) as file:
        return _parsed(file.read(MAX_BYTES))


def _existing(folder: Folder, path: str) -> tuple[Envelope, Statement] | None:
    read = folder.read(path, limit=MAX_BYTES)
    return _parsed(read.data) if read.state is FileState.OK else None


def _parsed(data: bytes) -> tuple[Envelope, Statement] | None:
    try:
        envelope = read_envelope(data)
        return envelope, read_statement(envelope.payload)
    except (EnvelopeProblem, StatementProblem):
        return None


def _fixed(statement: Statement) -> tuple[set[TreeFile], Mapping[str, str]]:
    """What nothing may change once a run has ended."""
    return {file for file in statement.files if file.path != JOURNAL_PATH}, statement.published


def _same(old: Statement, new: Statement) -> bool:
    """Whether both say the same of a run, whenever they do, and whatever they replace."""
    return replace(old, signed_at=new.signed_at, replaces=new.replaces) == new


def _is_good_enough(envelope: Envelope, key: SigningKey | None) -> bool:
    """Whether another statement would prove no more: this one is signed by a key that counts, or none can sign now."""
    return key is None or _key_of(envelope) is not None


def _key_of(envelope: Envelope) -> SigningKey | None:
    """The listed key that signed it."""
    named = [signature.key_id for signature in envelope.signatures]
    rows = SigningKey.objects.filter(key_id__in=named, revoked_at=None)
    return next((row for row in rows if is_signed_by(envelope, public_key(row).public)), None)


def _lay_down(run: Run, folder: Path, path: str) -> None:
    """A published document also lies in the run's folder, so that a copy of it is whole."""
    artifact = Artifact.objects.filter(run=run, path=path, public=True).first()
    if artifact is not None:
        _write(folder / path, b"".join(store.chunks(artifact)))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    replace_whole(path, data)


def statements_of(run: Run) -> dict[str, RunStatement]:
    """The last statement of each role, with its key; one query."""
    found: dict[str, RunStatement] = {}
    for row in run.statements.select_related("key").order_by("signed_at", "id"):
        found[row.role] = row
    return found
