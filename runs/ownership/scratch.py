"""A process's temporary folder, swept when its process has died.

A temporary folder of the system would keep what a killed process put there, private evidence included, for as long as
the system likes.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from runs.ownership.storage import LockBusy, flocked, make_lock

NAME = "scratch"
_LOCK = ".lock"
_WAIT_S = 30.0


@contextmanager
def scratch(data: Path, prefix: str) -> Iterator[Path]:
    """A new folder (0700) below `data`/scratch, gone at the end; first sweeps those of processes that died.

    Its maker holds its lock, so nobody sweeps it while its maker lives, frozen or not. Raises OSError.
    """
    with ExitStack() as held:
        with _root(data) as root:
            _sweep(root)
            path = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=root))
            held.callback(shutil.rmtree, path, ignore_errors=True)
            held.enter_context(flocked(path, 0))
        yield path


def sweep(data: Path) -> list[str]:
    """Remove the folders of processes that died; returns their names. Raises OSError."""
    if not (data / NAME).is_dir():
        return []
    with _root(data) as root:
        return _sweep(root)


@contextmanager
def _root(data: Path) -> Iterator[Path]:
    """One process at a time makes or sweeps, so that no folder is seen between its making and its lock."""
    root = data / NAME
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_lock(root / _LOCK)
    try:
        with flocked(root / _LOCK, _WAIT_S):
            yield root
    except LockBusy as error:
        raise TimeoutError(f"another process holds {NAME}/{_LOCK}") from error


def _sweep(root: Path) -> list[str]:
    swept = []
    for path in sorted(root.iterdir()):
        if path.name == _LOCK or path.is_symlink() or not path.is_dir():
            continue
        try:
            with flocked(path, 0):
                shutil.rmtree(path, ignore_errors=True)
        except LockBusy:
            continue
        swept.append(path.name)
    return swept
