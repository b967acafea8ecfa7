"""The journal of what a worker creates without a run; its next user removes what the last one left.

A maintenance journal lives longer than any run and is never fenced, so only one process uses it at a time:
whatever it holds when nobody uses it was left behind by one that died.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runs.containers import Deadline, Engine, EngineError, reconcile
from runs.engine.host.same_engine import forget_engine, remember_engine, require_same
from runs.ownership import Journal, JournalBusy, JournalError
from runs.ownership.storage import LockBusy, flocked, make_lock

IN_USE = "in-use.lock"
WAIT_S = 60.0

log = logging.getLogger(__name__)


@contextmanager
def maintenance(
    directory: Path, name: str, connect: Callable[[Deadline], Engine], *, wait_s: float = WAIT_S
) -> Iterator[Journal]:
    """The maintenance journal of `name`, for one user at a time; removes leftovers before and after its use.

    Raises JournalBusy when another process uses it for longer than `wait_s` seconds, and JournalCorrupt. What
    cannot be removed stays in the journal, is logged, and is tried again by the next user and by `tidy`.
    """
    with _in_use(directory, wait_s):
        journal = Journal.open_or_create(directory, run_id=f"maintenance-{name}")
        _remove_leftovers(journal, connect)
        _remember(journal, connect)
        try:
            yield journal
        finally:
            _remove_leftovers(journal, connect)


def tidy(root: Path, connect: Callable[[Deadline], Engine]) -> list[str]:
    """Remove the leftovers of every maintenance journal under `root` that nobody uses; returns problems.

    A problem names the journal's directory and a stable code.
    """
    problems = []
    for path in sorted(root.glob("*/journal.json")):
        try:
            with _in_use(path.parent, wait_s=0):
                problem = _remove_leftovers(Journal(path.parent), connect)
        except JournalBusy:
            continue
        if problem is not None:
            problems.append(f"{path.parent.name}: {problem}")
    return problems


@contextmanager
def _in_use(directory: Path, wait_s: float) -> Iterator[None]:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_lock(directory / IN_USE)
    try:
        with flocked(directory / IN_USE, wait_s):
            yield
    except LockBusy:
        raise JournalBusy(
            "maintenance_busy",
            "Another command of this worker is using the container engine. Try again when it has ended.",
            directory.name,
        ) from None


def _remember(journal: Journal, connect: Callable[[Deadline], Engine]) -> None:
    """Which engine this use speaks to, unless something is left on the one of an earlier use."""
    if not all(resource.settled for resource in journal.read().resources):
        return
    try:
        remember_engine(journal.directory, connect(Deadline()))
    except EngineError:
        # Its user finds that out as well, and says so.
        forget_engine(journal.directory)


def _remove_leftovers(journal: Journal, connect: Callable[[Deadline], Engine]) -> str | None:
    try:
        if all(resource.settled for resource in journal.read().resources):
            return None
        deadline = Deadline()
        api = connect(deadline)
        require_same(journal.directory, api, deadline)
        problem = None if reconcile(api, journal, deadline=deadline).clean else "not_clean"
    except (EngineError, JournalError) as error:
        problem = error.code
    if problem is not None:
        log.warning("the maintenance journal %s is not clean: %s", journal.directory.name, problem)
    return problem
