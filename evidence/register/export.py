"""The export of a run as one streamed ZIP, with a list of hashes that `sha256sum -c` accepts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from zipstream import ZIP_STORED, ZipStream

from benchsite.lib.redaction import Scrubber
from evidence.models import Artifact, ArtifactState
from evidence.register import store
from evidence.register.ingest import searched_secrets
from evidence.register.signing import countersign
from runs.models import Run

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class ExportRefused(Exception):
    """Something must not leave. `paths` are the files, never what is in them."""

    paths: tuple[str, ...]
    code: str = "export.holds_secret"

    @property
    def sentence(self) -> str:
        named = ", ".join(self.paths[:5]) + (" …" if len(self.paths) > 5 else "")
        return f"The export is refused, because a known secret is in: {named}. Change that secret."


@dataclass(frozen=True, slots=True)
class Export:
    """A checked export: `chunks` gives the archive's bytes once; `size` is its exact length in bytes."""

    name: str
    size: int
    files: int
    chunks: Iterator[bytes]


def export(run: Run, *, secrets: Iterable[str] = (), public_only: bool = False) -> Export:
    """The archive of all that is readable of a run, and of its files that are not, a line each in the list.

    Raises ExportRefused when anything is quarantined or holds one of `secrets`, which are looked for again in the
    stored bytes. A stored file that is not what was registered breaks the stream off (store.HashDiffers).
    """
    secrets = list(secrets)
    countersign(run, secrets=secrets)  # of a worker on a host without the site's key
    artifacts = list(Artifact.objects.filter(run=run).order_by("path"))
    refuse_secrets(artifacts, Scrubber(searched_secrets(run, secrets)))
    chosen = [artifact for artifact in artifacts if artifact.readable and (artifact.public or not public_only)]
    archive = ZipStream(compress_type=ZIP_STORED, sized=True)
    root = f"benchsite-{run.key}"
    archive.add(sums(chosen), arcname=f"{root}/{SUMS}")
    if not public_only:
        archive.add(not_included(artifacts), arcname=f"{root}/NOT-INCLUDED.txt")
    for artifact in chosen:
        archive.add(store.chunks(artifact), arcname=f"{root}/{artifact.path}", size=artifact.size)
    return Export(f"{root}.zip", len(archive), len(chosen), iter(archive))


def refuse_secrets(artifacts: Iterable[Artifact], scrubber: Scrubber) -> None:
    found = [artifact.path for artifact in artifacts if _holds_secret(artifact, scrubber)]
    if found:
        raise ExportRefused(tuple(found))


def _holds_secret(artifact: Artifact, scrubber: Scrubber) -> bool:
    if artifact.state == ArtifactState.QUARANTINED:
        return True
    if not artifact.readable:
        return False
    with store.open_stored(artifact) as file:
        return scrubber.found_in_stream(file)


def sums(artifacts: Iterable[Artifact]) -> bytes:
    """One line `<sha256>  <path>` per file, relative to the list's own folder; odd names escaped as GNU does."""
    return b"".join(f"{_line(artifact)}\n".encode() for artifact in artifacts)


def _line(artifact: Artifact) -> str:
    if "\\" not in artifact.path:
        return f"{artifact.sha256}  {artifact.path}"
    escaped = artifact.path.replace("\\", "\\\\")
    return f"\\{artifact.sha256}  {escaped}"


def not_included(artifacts: Iterable[Artifact]) -> bytes:
    """What the register knows and the archive does not hold, with the reason: absence is never silent."""
    lines = [
        f"{artifact.path}\t{artifact.get_state_display()}\t{artifact.note}\n"
        for artifact in artifacts
        if artifact.state not in (ArtifactState.OK, ArtifactState.EMPTY)
    ]
    return "".join(lines).encode()
