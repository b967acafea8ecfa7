"""The audit of a run: its register hashed again, its results derived again, and its rows held against both."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchsite.lib.disk import disk_trouble
from benchsite.lib.folder import FileState, Folder, UnsafePath, relative_parts
from benchsite.lib.problems import DocumentError
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.models import Artifact, ArtifactState, SigningKey
from evidence.origin.verifying import ENVELOPES, verify
from evidence.reading.proofs import at, mapping, sequence
from evidence.register import store
from evidence.register.keys import public_key
from evidence.register.kinds import PUBLIC, kind_of
from evidence.register.publishing import SUITE_PATH, quarantined
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, read_run
from evidence.trial.reviewed_files import MANIFEST_PATH
from runs.documents.run_spec import load_spec
from runs.models import AuditEntry, AuditKind, Run


@dataclass(frozen=True, slots=True)
class AuditDifference:
    """One thing that is not as it was written down. `what` is a stable word, `where` a path or trial."""

    what: str
    where: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    files: int
    trials: int
    differences: tuple[AuditDifference, ...]
    unavailable: tuple[str, ...] = ()
    expired: bool = False

    @property
    def clean(self) -> bool:
        return not self.differences


class NoRoom(Exception):
    """The stored files could not be laid out, so nothing can be said of them: that is no difference."""

    code = "audit.no_room"
    sentence = "The stored files could not be copied to be audited: the disk is full or read-only. Nothing was done."


_MAX_SUITE_BYTES = 64 * 1024 * 1024  # as large as a file that is stored
_MAX_SUITE_ITEMS = 10_000_000

type Replayer = Callable[[Run, Path], Iterable[AuditDifference]]


def audit(run: Run, *, scratch: Path | None = None, replay: Replayer | None = None) -> AuditReport:
    """Compare the register with the storage, and the rows with what the stored files amount to.

    The stored files are laid out in a folder below `scratch` and classified like a fresh run; files that were
    refused or quarantined are named as unavailable, since a result cannot be derived from them, and when files were
    removed by retention no result is. `replay` may look at the laid-out folder too, and add differences.
    Raises NoRoom when they cannot be laid out, and store.StorageFails when they cannot be had.
    """
    artifacts = list(Artifact.objects.filter(run=run))
    readable = [artifact for artifact in artifacts if artifact.readable]
    expired = any(artifact.state == ArtifactState.REMOVED for artifact in artifacts)
    differences = [found for artifact in readable if (found := _file_difference(artifact))]
    differences += [*_register_differences(run, artifacts), *_spec_differences(run)]
    with tempfile.TemporaryDirectory(dir=scratch, prefix="benchsite-audit-") as folder:
        root = Path(folder)
        _lay_out(readable, root)
        if not any(artifact.path == MANIFEST_PATH for artifact in artifacts):
            # Of a run from before the manifest was kept with it: the row's, which is believed by the same hash.
            try:
                (root / MANIFEST_PATH).write_text(run.bundle.manifest)
            except OSError as error:
                raise NoRoom(str(error)) from error
        # The suite result; a run whose host was lost never had one.
        read = Folder(root).read(SUITE_PATH, limit=_MAX_SUITE_BYTES)
        suite = _loaded(read.data) if read.state is FileState.OK else None
        if suite is not None:
            differences += _published_differences(run, suite)
        if not expired:
            differences += _result_differences(run, root, published=suite is not None)
            differences += _stated_differences(root)
        differences += replay(run, root) if replay is not None else ()
    lost = (ArtifactState.QUARANTINED, ArtifactState.REMOVED, ArtifactState.TRUNCATED_SOURCE)
    unavailable = tuple(artifact.path for artifact in artifacts if artifact.state in lost)
    return AuditReport(len(readable), run.trials.count(), tuple(differences), unavailable, expired)


def _file_difference(artifact: Artifact) -> AuditDifference | None:
    try:
        with store.open_stored(artifact) as file:
            found = store.Hashing(file).read_all()
    except FileNotFoundError:
        return AuditDifference("file_missing", artifact.path, artifact.sha256, "not in the storage")
    if found == (artifact.sha256, artifact.size):
        return None
    return AuditDifference("file_differs", artifact.path, artifact.sha256, found[0])


def _register_differences(run: Run, artifacts: list[Artifact]) -> Iterator[AuditDifference]:
    """What a viewer may read is decided by a file's place alone, and only a removal that was audited hides a result."""
    for artifact in artifacts:
        if artifact.public and kind_of(artifact.path).name not in PUBLIC:
            yield AuditDifference("public_differs", artifact.path, "private", "public")
    removed = [artifact.path for artifact in artifacts if artifact.state == ArtifactState.REMOVED]
    if removed and not AuditEntry.objects.filter(kind=AuditKind.EXPIRE, run_id=run.pk).exists():
        yield AuditDifference("removed_unrecorded", removed[0], "an entry of its removal", "none")


def _spec_differences(run: Run) -> Iterator[AuditDifference]:
    """The spec that pages show is the confirmed one, and so are each trial's task and its checksum."""
    found = hashlib.sha256(run.spec.encode()).hexdigest()
    if found != run.spec_sha256:
        yield AuditDifference("spec_differs", "spec", run.spec_sha256, found)
        return
    try:
        spec = load_spec(run.spec.encode()).content
    except DocumentError as error:
        yield AuditDifference("spec_differs", "spec", "a spec", error.code)
        return
    tasks = {task.ordinal: f"{task.name} {task.checksum}" for task in spec.tasks}
    for trial in run.trials.all():
        expected = tasks.get(trial.ordinal, "none")
        if expected != (shown := f"{trial.task_name} {trial.task_checksum}"):
            yield AuditDifference("task_differs", f"trial {trial.ordinal}", expected, shown)


def _lay_out(artifacts: list[Artifact], root: Path) -> None:
    for artifact in artifacts:
        try:
            target = root.joinpath(*relative_parts(artifact.path))
        except UnsafePath:
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.open_stored(artifact) as source, target.open("xb") as copy:
                while piece := source.read(store.CHUNK):
                    copy.write(piece)
        except store.StorageFails:
            raise  # an outage in the middle is no missing file either
        except OSError as error:
            if disk_trouble(error) is not None:
                raise NoRoom(str(error)) from error
            continue  # a missing file is a difference of its own


def _result_differences(run: Run, root: Path, *, published: bool) -> Iterator[AuditDifference]:
    """The rows against what the stored files amount to. The verdict of a run that was judged, as each published one
    was, follows from them too, but for whether its cleanup was clean then."""
    facts, hidden = read_run(root, Expected(run.key, run.spec_sha256)), quarantined(run)
    clean, unclean = (judge(facts, cleanup_clean=clean, quarantined=hidden) for clean in (True, False))
    derived = {trial.trial: result for trial, result in zip(facts.trials, clean.trials, strict=True)}
    rows = {trial.ordinal: trial for trial in run.trials.all()}
    for number in sorted(rows.keys() | derived.keys()):
        row, result = rows.get(number), derived.get(number)
        written = "none" if row is None else f"{row.bucket} {row.failure_code}".strip()
        found = "none"
        if result is not None:
            found = f"{result.bucket.value} {result.failure_code}".strip()
        if written != found:
            yield AuditDifference("result_differs", f"trial {number}", written, found)
    if run.terminal:
        for name in ("requested", "evaluated", "passed", "failed", "error", "cancelled"):
            written, found = str(getattr(run, f"count_{name}")), str(getattr(clean.suite.counts, name))
            if written != found:
                yield AuditDifference("count_differs", name, written, found)
        if published and run.verdict not in (clean.suite.verdict, unclean.suite.verdict):
            yield AuditDifference("verdict_differs", "derived verdict", str(run.verdict), clean.suite.verdict.value)


def _published_differences(run: Run, suite: dict[str, Any]) -> Iterator[AuditDifference]:
    """Verdict and results that pages show are those of the suite result, which outlives the private files."""
    if (said := at(suite, "verdict", "value")) != run.verdict:
        yield AuditDifference("verdict_differs", "verdict", str(said), str(run.verdict))
    rows = {trial.ordinal: trial for trial in run.trials.all()}
    for document in map(mapping, sequence(suite.get("trials"))):
        number = document.get("trial")
        row = rows.get(number) if isinstance(number, int) else None
        if row is None or row.bucket != document.get("bucket"):
            found = "none" if row is None else str(row.bucket)
            yield AuditDifference("published_differs", f"trial {number}", str(document.get("bucket")), found)
        elif _loaded((row.result or "").encode()) != document:
            yield AuditDifference("published_differs", f"trial {number}", "the published result", "another one")


def _loaded(data: bytes) -> dict[str, Any] | None:
    try:
        return load_object(data, items=_MAX_SUITE_ITEMS)
    except JsonProblem:
        return None


def _stated_differences(root: Path) -> Iterator[AuditDifference]:
    """What was stated of a run when it ended is still so, and each signature of it is a listed key's. A run of which
    nothing was stated, or that nobody signed, is no difference."""
    found = verify(Folder(root), [public_key(row) for row in SigningKey.objects.all()])
    if not found.statements:
        return
    for each in found.differences:
        yield AuditDifference("statement_differs", each.path, "as it was stated", each.code)
    for signer in found.signers:
        if signer.code not in ("", "signature.none"):
            yield AuditDifference("signature_differs", ENVELOPES[signer.role], "one that counts", signer.code)
