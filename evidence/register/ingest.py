"""Ingesting a run's folder into the register: walk, scrub, store, hash, scan, index; bounded, and repeatable.

Nothing is stored before known secrets are removed from what others wrote, in the folder as in the storage; what was
removed is recorded with the hash before and after, so that a kept file can still be compared with what the attendant
saw. Our own records are never changed: whoever writes one keeps secrets out of it. A file that holds a secret after
that is quarantined: neither shown nor exported.
"""

import io
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from django.db import transaction

from benchsite.lib.folder import Entry, FileState, Folder, UnsafePath, printable
from benchsite.lib.redaction import MARK, Patience, PatienceOver, Scrubber
from evidence.harbor.job import MAX_RESULT_BYTES
from evidence.models import Artifact, ArtifactState
from evidence.reading.redactions import REDACTIONS_PATH, Redaction, read_redactions, write_redactions
from evidence.register import store
from evidence.register.kinds import IGNORED, OWN, PUBLIC, Kind, kind_of, trial_of
from evidence.trajectory.conversation import write_conversation
from evidence.trajectory.index import agents_answers, build_index
from evidence.trajectory.ledger_match import answer_digests
from runs.documents.credentials import why_not_searched
from runs.documents.ledger import MAX_BYTES as MAX_LEDGER_BYTES
from runs.documents.ledger import LedgerReport, TrialLedger, read_ledger
from runs.models import Run

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_RUN_BYTES = 512 * 1024 * 1024
MAX_FILES = 2048
# Three trials with three full transfers each, and Harbor's copies of two of them, are looked at as a whole.
WALKED = 20
TAIL_BYTES = 8 * 1024 * 1024
MAX_COPY_IN_MEMORY = 1024 * 1024
MAX_SCRUBBED_BYTES = 1024 * 1024 * 1024
# Of one trial's files: the search for secrets takes as long as passing over so many bytes without an escape, which is
# less than a second of processor time. What would take longer is withheld.
SEARCHED = 128 * 1024 * 1024
JUDGED = frozenset({"reward", "verifier_output", "harbor_result", "harbor_lock", "harbor_config"})
WITHHELD = "withheld whole: the search for secrets takes too long"
OVERFLOW = "(more files)"
_STATES = {
    FileState.MISSING: ArtifactState.MISSING,
    FileState.EMPTY: ArtifactState.EMPTY,
    FileState.TOO_LARGE: ArtifactState.TOO_LARGE,
    FileState.UNREADABLE: ArtifactState.UNREADABLE,
    FileState.UNSAFE_TYPE: ArtifactState.UNSAFE_TYPE,
}


@dataclass(slots=True)
class IngestReport:
    """What one ingest did. `secrets_not_searched` were known but cannot be told from the run's own words."""

    stored: int = 0
    refused: int = 0
    redacted: int = 0
    quarantined: int = 0
    bytes: int = 0
    secrets_not_searched: int = 0


@dataclass(slots=True)
class _Ingest:
    run: Run
    folder: Folder
    scrubber: Scrubber
    known: dict[str, Artifact]
    redactions: dict[str, Redaction]
    report: IngestReport = field(default_factory=IngestReport)
    patience: dict[int | None, Patience] = field(default_factory=dict)
    clean: dict[int, set[str]] = field(
        default_factory=dict
    )  # hashes, by size, of what was searched and holds no secret


def ingest(run: Run, directory: Path, *, secrets: Iterable[str] = ()) -> IngestReport:
    """Register everything in a run's folder. Repeatable: an unchanged file keeps its row and its stored bytes.

    `secrets` are the values that the run knew (credential, tokens, keys). Raises OSError when the storage or the
    folder cannot be written.
    """
    folder = Folder(directory)
    known = [value for value in dict.fromkeys(secrets) if value.strip()]
    searched = searched_secrets(run, known)
    work = _Ingest(
        run=run,
        folder=folder,
        scrubber=Scrubber(searched),
        known={artifact.path: artifact for artifact in Artifact.objects.filter(run=run)},
        redactions=read_redactions(folder),
    )
    work.report.secrets_not_searched = len(known) - len(searched)
    # An earlier ingest of this run that died, or found the disk full, may have stored a file and written no row.
    store.forget_unregistered(run, {artifact.stored for artifact in work.known.values()})
    for entry in _entries(work):
        _keep(work, entry)
    if work.redactions:
        write_redactions(directory, work.redactions)
        _keep(work, Entry(REDACTIONS_PATH, FileState.OK, 0))
    _index_trajectories(work)
    return work.report


def searched_secrets(run: Run, secrets: Iterable[str]) -> list[str]:
    """Those of `secrets` that evidence is searched for; the others would damage it (`why_not_searched`)."""
    documents = (run.spec, run.bundle.manifest)
    return [value for value in secrets if not why_not_searched(value, *documents)]


def _entries(work: _Ingest) -> Iterator[Entry]:
    """The files to be registered, our own records first; beyond the bound one row says that there were more."""
    listing = work.folder.walk(limit=WALKED * MAX_FILES)
    found = (entry for entry in listing.entries if not IGNORED.fullmatch(entry.path) and entry.path != REDACTIONS_PATH)
    wanted = sorted(found, key=lambda entry: kind_of(entry.path).crowd)
    yield from wanted[:MAX_FILES]
    if listing.truncated or len(wanted) > MAX_FILES:
        _register_refused(work, OVERFLOW, ArtifactState.TOO_LARGE, note=f"more than {MAX_FILES:,} files")


def _keep(work: _Ingest, entry: Entry) -> None:
    """One file: scrubbed where it lies, stored, scanned, registered."""
    if entry.state in (FileState.UNSAFE_TYPE, FileState.UNREADABLE):
        _register_refused(work, entry.path, _STATES[entry.state], note=entry.detail)
        return
    with ExitStack() as stack:
        try:
            handle, info = stack.enter_context(work.folder.open(entry.path))
        except (OSError, UnsafePath) as error:
            _register_refused(work, entry.path, ArtifactState.UNREADABLE, note=type(error).__name__)
            return
        file = stack.enter_context(os.fdopen(os.dup(handle), "rb"))
        _store(work, entry.path, file, info.st_size)


def _store(work: _Ingest, path: str, file: IO[bytes], size: int) -> None:
    kind = kind_of(path)
    room = MAX_RUN_BYTES - work.report.bytes
    cut = size > min(MAX_FILE_BYTES, room)
    try:
        if cut and kind.name not in OWN:
            _scrub_unkept(work, path, file, size)
        if cut and not (kind.tail and room >= TAIL_BYTES):
            note = "larger than one file may be" if size > MAX_FILE_BYTES else "the run's evidence is full"
            _register_refused(work, path, ArtifactState.TOO_LARGE, size=size, note=note)
            return
        start = size - TAIL_BYTES if cut else 0
        note = f"the last {TAIL_BYTES:,} bytes" if cut else ""
        if kind.name in OWN or _is_searched_clean(work, path, file, start):
            _store_unchanged(work, path, file, start, size=size, note=note)
        else:
            _store_scrubbed(work, path, file, start, size=size, note=note)
    except PatienceOver:
        _withhold(work, path, file, size)


def _store_unchanged(work: _Ingest, path: str, file: IO[bytes], start: int, *, size: int, note: str) -> None:
    """A file of our own, or one that holds no secret."""
    row, kind = work.known.get(path), kind_of(path)
    file.seek(0)
    if row is not None and row.note == WITHHELD and file.read(len(MARK) + 1) == MARK:
        size, note = row.source_size, WITHHELD  # by an earlier ingest
    with ExitStack() as stack:
        content = file
        if start:
            content = stack.enter_context(_copy(work))
            file.seek(start)
            shutil.copyfileobj(file, content, store.CHUNK)
        found = kind.name in OWN and _holds_secret(work, content)
        _register(work, path, kind, content, size=size, note=note, replaced=0, found=found)


def _store_scrubbed(work: _Ingest, path: str, file: IO[bytes], start: int, *, size: int, note: str) -> None:
    """A file that holds a secret. Raises PatienceOver."""
    file.seek(start)
    with _copy(work) as clean:
        before = store.Hashing(file)
        replaced = work.scrubber.scrub_stream(before, clean, _patience(work, path, size))
        found = _holds_secret(work, clean, _patience(work, path, size))
        if replaced and not note:
            _replace_original(work, path, clean, before, replaced)
        _register(work, path, kind_of(path), clean, size=size, note=note, replaced=replaced, found=found)


def _patience(work: _Ingest, path: str, size: int = 0) -> Patience | None:
    """What is left for the search of files of the same trial. What decides a trial is always searched: no agent's log
    takes a reward's time."""
    if kind_of(path).name in JUDGED and size <= MAX_RESULT_BYTES:
        return None
    return work.patience.setdefault(trial_of(path), Patience(SEARCHED))


def _is_searched_clean(work: _Ingest, path: str, file: IO[bytes], start: int) -> bool:
    """Whether these bytes were searched, here or in a copy, and hold no secret: Harbor has copies of what the attendant
    kept. Raises PatienceOver."""
    left = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    clean = work.clean.setdefault(left, set())
    if clean and store.Hashing(file).read_all()[0] in clean:
        return True
    file.seek(start)
    searched = store.Hashing(file)
    if work.scrubber.found_in_stream(searched, _patience(work, path, left)):
        return False
    clean.add(searched.sha256)
    return True


def _withhold(work: _Ingest, path: str, file: IO[bytes], size: int) -> None:
    """In the place of a file that cannot be searched in time stands, here and there, that something was taken out."""
    file.seek(0)
    before = store.Hashing(file)
    before.read_all()
    with io.BytesIO(MARK) as mark:
        _replace_original(work, path, mark, before, 1)
        _register(work, path, kind_of(path), mark, size=size, note=WITHHELD, replaced=1, found=False)


def _scrub_unkept(work: _Ingest, path: str, file: IO[bytes], size: int) -> None:
    """A file of which not all is kept still lies in the folder, so it is scrubbed there, up to a bound. Raises
    PatienceOver."""
    if size > MAX_SCRUBBED_BYTES or not work.scrubber.found_in_stream(file, _patience(work, path)):
        return
    file.seek(0)
    with _copy(work) as clean:
        before = store.Hashing(file)
        replaced = work.scrubber.scrub_stream(before, clean, _patience(work, path))
        _replace_original(work, path, clean, before, replaced)


def _copy(work: _Ingest) -> IO[bytes]:
    """Where a scrubbed copy is while it is stored: most files of a run are small and never touch the disk twice."""
    return tempfile.SpooledTemporaryFile(MAX_COPY_IN_MEMORY, "w+b", dir=str(_scratch(work)))


def _scratch(work: _Ingest) -> Path:
    """In the run's own folder when there is one to write."""
    scratch = work.folder.root / "work"
    return scratch if scratch.is_dir() else Path(tempfile.gettempdir())


def _replace_original(work: _Ingest, path: str, clean: IO[bytes], before: store.Hashing, replaced: int) -> None:
    """The folder keeps no secret either: the file is replaced by its scrubbed form, and that is recorded."""
    target = work.folder.root / path
    clean.seek(0)
    hashing = store.Hashing(clean)
    temporary = work.folder.root / ".scrubbed.new"  # never beside the target: an agent may have chosen that name
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while piece := hashing.read(store.CHUNK):
            file.write(piece)
    temporary.replace(target)
    earlier = work.redactions.get(path)
    total = replaced + (earlier.replaced if earlier else 0)
    original, size = before.sha256, before.size
    if earlier and earlier.sha256 == original:
        original, size = earlier.original_sha256, earlier.original_size
    work.redactions[path] = Redaction(original, hashing.sha256, total, size)
    work.report.redacted += 1


def _register(
    work: _Ingest, path: str, kind: Kind, clean: IO[bytes], *, size: int, note: str, replaced: int, found: bool
) -> None:
    """`note` says what is stored of a file when it is not all; `found`, that these bytes still hold a secret."""
    artifact = _row(work, path)
    previous = artifact.stored
    unchanged = _is_unchanged(artifact, clean)
    if not unchanged:
        store.save(artifact, clean)
    work.report.bytes += artifact.size
    artifact.source_size = size
    artifact.redactions = max(artifact.redactions, replaced)
    artifact.state = ArtifactState.TRUNCATED_SOURCE if note else ArtifactState.OK
    if artifact.size == 0:
        artifact.state = ArtifactState.EMPTY
    artifact.note = note
    artifact.public = kind.name in PUBLIC
    if found or work.scrubber.found_in(path.encode("utf-8", "surrogatepass")):
        store.delete(artifact)
        artifact.state, artifact.public = ArtifactState.QUARANTINED, False
        artifact.note = "a known secret was still found after scrubbing"
        work.report.quarantined += 1
    artifact.save()
    work.report.stored += artifact.readable
    if previous and previous != artifact.stored:
        transaction.on_commit(lambda: store.remove(previous))


def _is_unchanged(artifact: Artifact, clean: IO[bytes]) -> bool:
    """Whether the stored bytes are these bytes; then they are not written again."""
    if not artifact.stored:
        return False
    clean.seek(0)
    hashing = store.Hashing(clean)
    while hashing.read(store.CHUNK):
        pass
    return hashing.sha256 == artifact.sha256 and store.verify(artifact)


def _holds_secret(work: _Ingest, clean: IO[bytes], patience: Patience | None = None) -> bool:
    """The second look, at what is about to be registered; of our own records the only one. Raises PatienceOver."""
    clean.seek(0)
    return work.scrubber.found_in_stream(clean, patience)


def _register_refused(work: _Ingest, path: str, state: ArtifactState, *, size: int = 0, note: str = "") -> None:
    artifact = _row(work, path)
    store.delete(artifact)
    artifact.state, artifact.source_size, artifact.note = state, size, note[:200]
    artifact.size, artifact.sha256, artifact.public = 0, "", False
    artifact.save()
    work.report.refused += 1


def _row(work: _Ingest, path: str) -> Artifact:
    shown = printable(work.scrubber.scrub_text(path))
    shown = shown if len(shown) <= 1000 else f"{shown[:990]}…"
    artifact = work.known.get(shown)
    if artifact is None:
        artifact = Artifact(run=work.run, path=shown, trial=trial_of(path), kind=kind_of(path).name)
        work.known[shown] = artifact
    return artifact


def _index_trajectories(work: _Ingest) -> None:
    """An index for the trajectory of each trial that has one; the native file comes before Harbor's copy."""
    ledger = _ledger(work)
    chosen: dict[int, Artifact] = {}
    for kind in ("trajectory_atif", "trajectory"):
        for artifact in work.known.values():
            if artifact.kind == kind and artifact.trial is not None and artifact.readable and artifact.size:
                chosen[artifact.trial] = artifact
    for trial, artifact in chosen.items():
        try:
            _index_trajectory(work, trial, artifact, ledger)
        except OSError:
            raise
        except Exception:  # an agent wrote it: whatever it holds, the run has to end
            log.exception("run %s: the trajectory of trial %d cannot be indexed", work.run.key, trial)
    for artifact in list(work.known.values()):
        if artifact.kind == "transcript" and artifact.trial is not None and artifact.readable:
            try:
                _index_transcript(work, artifact.trial, artifact, chosen.get(artifact.trial), ledger)
            except OSError:
                raise
            except Exception:  # an agent and an endpoint said it
                log.exception("run %s: the transcript of trial %d cannot be indexed", work.run.key, artifact.trial)


def _index_trajectory(work: _Ingest, trial: int, artifact: Artifact, ledger: LedgerReport) -> None:
    with store.open_stored(artifact) as source, _copy(work) as index:
        build_index(source, index, answer_digests(ledger.trial(trial)))
        path = f"evidence/trials/{trial}/trajectory.index"
        size = index.tell()
        _register_derived(work, path, index, size)


def _index_transcript(
    work: _Ingest, trial: int, artifact: Artifact, agents: Artifact | None, ledger: LedgerReport
) -> None:
    """The gateway's transcript to read, held against the ledger and the agent's own file, and its index."""
    with _copy(work) as conversation, _copy(work) as index:
        tell_conversation(artifact, agents, ledger.trial(trial), conversation)
        build_index(conversation, index, answer_digests(ledger.trial(trial)))
        for name, file in (("conversation.json", conversation), ("conversation.index", index)):
            path = f"evidence/trials/{trial}/{name}"
            _register_derived(work, path, file, file.seek(0, io.SEEK_END))


def _register_derived(work: _Ingest, path: str, file: IO[bytes], size: int) -> None:
    """What was made of files of others, searched with the patience that these left."""
    try:
        found = _holds_secret(work, file, _patience(work, path))
    except PatienceOver:
        _register_refused(work, path, ArtifactState.TOO_LARGE, size=size, note=WITHHELD)
        return
    _register(work, path, kind_of(path), file, size=size, note="", replaced=0, found=found)


def tell_conversation(artifact: Artifact, agents: Artifact | None, ledger: TrialLedger, target: IO[bytes]) -> None:
    """Write the readable form of a stored transcript; `agents` is the agent's own file. Raises OSError, NotReadable."""
    answers = None
    if agents is not None:
        with store.open_stored(agents) as own:
            answers = agents_answers(own)
    with store.open_stored(artifact) as source:
        redacted = artifact.redactions > 0
        trial = artifact.trial or 0
        write_conversation(source, target, ledger, trial=trial, agent=answers, redacted=redacted)


def _ledger(work: _Ingest) -> LedgerReport:
    read = work.folder.read("ledger.jsonl", limit=MAX_LEDGER_BYTES)
    return read_ledger(read.data if read.state is FileState.OK else None)


def register_files(run: Run, directory: Path, paths: Iterable[str], *, secrets: Iterable[str] = ()) -> None:
    """Register single files of a run's folder (again): those that changed or came after it was ingested."""
    folder = Folder(directory)
    known = {artifact.path: artifact for artifact in Artifact.objects.filter(run=run)}
    work = _Ingest(run, folder, Scrubber(searched_secrets(run, secrets)), known, read_redactions(folder))
    for path in paths:
        _keep(work, Entry(path, FileState.OK, 0))


def register_document(run: Run, path: str, document: object, *, secrets: Iterable[str] = ()) -> Artifact:
    """Store one document of our own (suite result, provenance) under its place below `evidence/`."""
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return register_bytes(run, path, data, secrets=secrets)


def register_bytes(run: Run, path: str, data: bytes, *, secrets: Iterable[str] = ()) -> Artifact:
    """Store a file of our own that lies in no folder."""
    work = _Ingest(run, Folder(Path("/nonexistent")), Scrubber(searched_secrets(run, secrets)), {}, {})
    existing = Artifact.objects.filter(run=run, path=path).first()
    if existing is not None:
        work.known[path] = existing
    with io.BytesIO(data) as file:
        found = _holds_secret(work, file)
        _register(work, path, kind_of(path), file, size=len(data), note="", replaced=0, found=found)
    return work.known[path]
