"""How does a command write what somebody asked for into a file? Whole or not at all, and never over another file."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from runs.refusals import BadInput


def write_new(target: Path, pieces: Iterable[bytes]) -> None:
    """Write ``pieces`` to ``target``, which must not exist, with mode 0600.

    Raises BadInput ``input.no_target``; whatever ``pieces`` raises goes on, and then nothing stays behind.
    """
    if os.path.lexists(target):
        raise _refused(target, "it exists already; name another file")
    descriptor, temporary = _beside(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                _write(file.fileno(), piece, target)
        _name(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _beside(target: Path) -> tuple[int, Path]:
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".benchsite-", suffix=".new")
    except OSError as error:
        raise _refused(target, error.strerror) from error
    return descriptor, Path(name)


def _write(descriptor: int, piece: bytes, target: Path) -> None:
    """Only errors of the file being written are the target's; those of the source are told apart by their place."""
    left = memoryview(piece)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise _refused(target, error.strerror) from error


def _name(temporary: Path, target: Path) -> None:
    """Give the whole file its name; a link fails where somebody else was faster."""
    try:
        os.link(temporary, target)
    except OSError as error:
        raise _refused(target, error.strerror) from error


def _refused(target: Path, why: str | None) -> BadInput:
    return BadInput(f"The file {target} cannot be made: {why}.", code="input.no_target")
