"""Files that a command line names: documents that are read, and new files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from benchsite.lib.canonical import MAX_DOCUMENT_BYTES
from runs.services.refusals import BadInput


def write_new(target: Path, pieces: Iterable[bytes]) -> None:
    """Write ``pieces`` to ``target``, which must not exist, with mode 0600.

    Raises BadInput ``input.no_target``; whatever ``pieces`` raises goes on, and then nothing stays behind. Where the
    file system can make a file without a name, nothing stays of a command that is killed either.
    """
    if os.path.lexists(target):
        raise _refused(target, "it exists already; name another file")
    with ExitStack() as stack:
        descriptor, name = _open_target(target, stack)
        for piece in pieces:
            _write(descriptor, piece, target)
        # Give the whole file its name; a link fails where somebody else was faster.
        folder = os.open(target.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            # Only with a folder's descriptor does Python follow the link in /proc to the file itself.
            os.link(name, target.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
        except OSError as error:
            raise _refused(target, error.strerror) from error
        finally:
            os.close(folder)


def _open_target(target: Path, stack: ExitStack) -> tuple[int, str]:
    """(descriptor, the name under which it can be linked)."""
    try:
        descriptor = _open_unnamed(target.parent)
        stack.callback(os.close, descriptor)
        return descriptor, f"/proc/self/fd/{descriptor}"
    except OSError:  # this file system, or its kernel, cannot
        pass
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".benchsite-", suffix=".new")
    except OSError as error:
        raise _refused(target, error.strerror) from error
    stack.callback(os.close, descriptor)
    stack.callback(_unlink, name)
    return descriptor, name


def _open_unnamed(folder: Path) -> int:
    return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)


def _unlink(name: str) -> None:
    with suppress(OSError):
        Path(name).unlink()


def _write(descriptor: int, piece: bytes, target: Path) -> None:
    """Only errors of the file being written are the target's; those of the source are told apart by their place."""
    left = memoryview(piece)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise _refused(target, error.strerror) from error


def _refused(target: Path, why: str | None) -> BadInput:
    return BadInput(f"The file {target} cannot be made: {why}.", code="input.no_target")


def read_document(path: Path) -> bytes:
    """A file's bytes, one more than any document may have at most. Raises BadInput `input.no_file`."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        why = (error.strerror or "unknown error").lower()
        raise BadInput(
            f"{path} cannot be read: {why}. Give the path of a file.", code="input.no_file", detail=str(error)
        ) from error
