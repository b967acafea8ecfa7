"""Parts of a stored file, verified by the hashes of its blocks instead of hashing the whole file again.

They are taken while the whole file is found to be what was registered, so a block that still has its hash is still
what was registered, wherever it lies by now. Nothing is believed of the storage: no name, time or size.
"""

import hashlib
from typing import IO

from evidence.models import Artifact
from evidence.register.store import HashDiffers, open_stored

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
