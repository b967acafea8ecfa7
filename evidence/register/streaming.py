"""Reading a run's files: one permission, one audit row, one hash check, for pages, commands and tools alike."""

import hashlib
from collections.abc import Iterator
from typing import IO

from django.db.models import QuerySet

from evidence.models import Artifact
from evidence.register import store
from evidence.register.store import HashDiffers, open_stored
from runs.models import AuditKind, Run
from runs.services import access, audit
from runs.services.access import AnyUser
from runs.services.refusals import BadInput


class NoSuchEvidence(BadInput):
    """There is no file of that id, or not of that run."""

    code = "evidence.unknown"
    sentence = "There is no such file in the register."


class NothingKept(BadInput):
    """The register knows the file, but nothing of it can be read."""

    code = "evidence.nothing_kept"


class NotInStorage(Exception):
    """The register has the file and the storage does not."""

    code = "evidence.missing"
    sentence = "The storage does not hold this file any more. Restore it from a backup; manage.py audit names all."


def artifacts_for(user: AnyUser, run: Run) -> "QuerySet[Artifact]":
    """The files of a run that ``user`` may know of: operators all, viewers the public ones."""
    access.require(user, access.VIEW)
    found = Artifact.objects.filter(run=run)
    return found if access.may(user, access.READ_PRIVATE) else found.filter(public=True)


def artifact_for(user: AnyUser, key: str) -> Artifact:
    """The file of that id, if ``user`` may read it. Raises NoSuchEvidence and PermissionDenied."""
    access.require(user, access.VIEW)
    found = Artifact.objects.select_related("run").filter(key=key).first() if key.isprintable() else None
    if found is None:
        raise NoSuchEvidence
    if not found.public:
        access.require(user, access.READ_PRIVATE)
    return found


def record_read(user: AnyUser, artifact: Artifact, *, octets: int) -> None:
    """The audit row of a read, written before the first byte leaves."""
    audit.record(
        AuditKind.DOWNLOAD,
        user=user,
        run_id=artifact.run_id,
        subject=artifact.path,
        detail={"sha256": artifact.sha256, "bytes": octets},
    )


def stream_file(user: AnyUser, artifact: Artifact, *, verified_first: bool = False) -> Iterator[bytes]:
    """The file's bytes in pieces, after the audit row. Raises NothingKept at once.

    While they are read: store.HashDiffers when they are not those that were registered, NotInStorage when there are
    none. The last piece comes only when all were right; with ``verified_first`` no piece comes before that.
    """
    if not artifact.readable:
        raise NothingKept(f"There is nothing to read of {artifact.path}: {artifact.get_state_display().lower()}.")
    record_read(user, artifact, octets=artifact.size)
    return _pieces(artifact, verified_first)


def read_range(user: AnyUser, artifact: Artifact, start: int, end: int) -> bytes:
    """Bytes ``start`` to before ``end``, after the audit row, and proved to be those that were registered.

    The whole file is hashed at its first part in this process. Raises NothingKept, NotInStorage, store.HashDiffers.
    """
    if not artifact.readable:
        raise NothingKept(f"There is nothing to read of {artifact.path}: {artifact.get_state_display().lower()}.")
    record_read(user, artifact, octets=end - start)
    try:
        return _BLOCKS.part(artifact, start, end)
    except FileNotFoundError as error:
        raise NotInStorage from error


def _pieces(artifact: Artifact, verified_first: bool) -> Iterator[bytes]:
    try:
        if verified_first:
            yield from store.range_chunks(artifact, 0, artifact.size)
        else:
            yield from store.chunks(artifact)
    except FileNotFoundError as error:
        raise NotInStorage from error


BLOCK = 64 * 1024
MOST_FILES = 64  # whose block hashes are remembered; 32 bytes a block, so 2 MiB when each has 64 MiB
_DIGEST = 32


class VerifiedBlocks:
    """The block hashes of the files that were read last, in this process."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, str], bytes] = {}

    def part(self, artifact: Artifact, start: int, end: int) -> bytes:
        """Bytes ``start`` to before ``end``, which must lie in the file.

        Raises HashDiffers when they, or at the first part anything of the file, are not what was registered;
        FileNotFoundError when the storage has none, StorageFails when that cannot be told.
        """
        key = (artifact.pk, artifact.sha256)
        with open_stored(artifact) as file:
            if key not in self._of:
                self._remember(key, _verified(file, artifact))
            first, after = start // BLOCK, -(-end // BLOCK)
            file.seek(first * BLOCK)
            blocks = [file.read(BLOCK) for _ in range(first, after)]
        known = self._of[key][first * _DIGEST : after * _DIGEST]
        if b"".join(hashlib.sha256(block).digest() for block in blocks) != known:
            del self._of[key]
            raise HashDiffers
        return b"".join(blocks)[start - first * BLOCK : end - first * BLOCK]

    def _remember(self, key: tuple[int, str], digests: bytes) -> None:
        while len(self._of) >= MOST_FILES:
            del self._of[next(iter(self._of))]
        self._of[key] = digests


def _verified(file: IO[bytes], artifact: Artifact) -> bytes:
    """The hashes of all blocks of the file, once it is what was registered as a whole."""
    whole, blocks, size = hashlib.sha256(), [], 0
    while block := file.read(BLOCK):
        whole.update(block)
        blocks.append(hashlib.sha256(block).digest())
        size += len(block)
    if (whole.hexdigest(), size) != (artifact.sha256, artifact.size):
        raise HashDiffers
    return b"".join(blocks)


_BLOCKS = VerifiedBlocks()
