"""Does a run's register still say what its files say? Hash everything again, and derive the results again."""

import errno
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence import store
from evidence.classify import classify_trial
from evidence.folder import UnsafePath, relative_parts
from evidence.models import Artifact, ArtifactState
from evidence.results import read_run
from evidence.reviewed_files import MANIFEST_PATH
from evidence.verdict import count
from runs.models import Run


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was written down. `what` is a stable word, `where` a path or trial."""

    what: str
    where: str
    expected: str
    found: str

    def as_json(self) -> dict[str, str]:
        return {"what": self.what, "where": self.where, "expected": self.expected, "found": self.found}


@dataclass(frozen=True, slots=True)
class AuditReport:
    files: int
    trials: int
    differences: tuple[Difference, ...]
    unavailable: tuple[str, ...] = ()
    expired: bool = False

    @property
    def clean(self) -> bool:
        return not self.differences


class NoRoom(Exception):
    """The stored files could not be laid out, so nothing can be said of them: that is no difference."""

    code = "audit.no_room"
    sentence = "The stored files could not be copied to be audited: the disk is full or read-only. Nothing was done."


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})

type Replayer = Callable[[Run, Path], Iterable[Difference]]


def audit(run: Run, *, scratch: Path | None = None, replay: Replayer | None = None) -> AuditReport:
    """Compare the register with the storage, and the rows with what the stored files amount to.

    The stored files are laid out in a folder below `scratch` and classified like a fresh run; files that were
    refused or quarantined are named as unavailable, since a result cannot be derived from them, and when files were
    removed by retention no result is. `replay` may look at the laid-out folder too, and add differences.
    Raises NoRoom when they cannot be laid out.
    """
    artifacts = list(Artifact.objects.filter(run=run))
    readable = [artifact for artifact in artifacts if artifact.readable]
    expired = any(artifact.state == ArtifactState.REMOVED for artifact in artifacts)
    differences = [found for artifact in readable if (found := _file_difference(artifact))]
    with tempfile.TemporaryDirectory(dir=scratch, prefix="benchsite-audit-") as folder:
        root = Path(folder)
        _lay_out(readable, root)
        if not any(artifact.path == MANIFEST_PATH for artifact in artifacts):
            _lay_out_manifest(run, root)
        if not expired:
            differences += _result_differences(run, root)
        differences += replay(run, root) if replay is not None else ()
    unavailable = tuple(artifact.path for artifact in artifacts if _is_lost(artifact))
    return AuditReport(len(readable), run.trials.count(), tuple(differences), unavailable, expired)


def _is_lost(artifact: Artifact) -> bool:
    return artifact.state in (ArtifactState.QUARANTINED, ArtifactState.REMOVED, ArtifactState.TRUNCATED_SOURCE)


def _file_difference(artifact: Artifact) -> Difference | None:
    try:
        with store.open_stored(artifact) as file:
            hashing = store.Hashing(file)
            while hashing.read(store.CHUNK):
                pass
    except OSError:
        return Difference("file_missing", artifact.path, artifact.sha256, "not in the storage")
    if (hashing.size, hashing.sha256) == (artifact.size, artifact.sha256):
        return None
    return Difference("file_differs", artifact.path, artifact.sha256, hashing.sha256)


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
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise NoRoom(str(error)) from error
            continue  # a missing file is a difference of its own


def _lay_out_manifest(run: Run, root: Path) -> None:
    """Of a run from before the manifest was kept with it: the row's, which is believed by the same hash."""
    try:
        (root / MANIFEST_PATH).write_text(run.bundle.manifest)
    except OSError as error:
        raise NoRoom(str(error)) from error


def _result_differences(run: Run, root: Path) -> Iterator[Difference]:
    facts = read_run(root, spec_sha256=run.spec_sha256)
    derived = {trial.trial: classify_trial(trial) for trial in facts.trials}
    rows = {trial.ordinal: trial for trial in run.trials.all()}
    for number in sorted(rows.keys() | derived.keys()):
        row, result = rows.get(number), derived.get(number)
        written = "none" if row is None else f"{row.bucket} {row.failure_code}".strip()
        found = "none"
        if result is not None:
            found = f"{result.bucket.value} {'' if result.evaluated else result.code}".strip()
        if written != found:
            yield Difference("result_differs", f"trial {number}", written, found)
    if run.terminal:
        counts = count(list(derived.values()))
        for name in ("requested", "evaluated", "passed", "failed", "error", "cancelled"):
            written, found = str(getattr(run, f"count_{name}")), str(getattr(counts, name))
            if written != found:
                yield Difference("count_differs", name, written, found)
