"""The database when it fails: waited for by a process that executes runs, and called what it is by a command.

A page must not wait, so decorated functions retry only after `enable_database_retries`.
"""

import time
from collections.abc import Callable
from functools import wraps

from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    connection,
    connections,
)
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

FOR_S = 60.0
_PAUSE_S = 0.5
_LOST = (OperationalError, InterfaceError)
_enabled_for_s = 0.0


def enable_database_retries(seconds: float = FOR_S) -> None:
    """From now on every function of this process with `retrying_database` waits so long for the database."""
    global _enabled_for_s
    _enabled_for_s = seconds


def retrying_database[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Decorate what may be repeated, such as a compare-and-set: see `enable_database_retries`."""

    @wraps(function)
    def retried(*args: P.args, **kwargs: P.kwargs) -> T:
        return retry_database(lambda: function(*args, **kwargs), for_s=_enabled_for_s)

    return retried


def retry_database[T](
    function: Callable[[], T], *, for_s: float = FOR_S, sleep: Callable[[float], None] = time.sleep
) -> T:
    """Call `function` until the database answers, at most `for_s` seconds; then raise what it raised last.

    Inside a transaction nothing is repeated: the transaction is lost as a whole.
    """
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, _LOST) and not connection.in_atomic_block),
        stop=stop_after_delay(for_s),
        wait=wait_fixed(_PAUSE_S),
        before_sleep=lambda _: connections.close_all(),
        sleep=sleep,
        reraise=True,
    )
    return retrying(function)


CODE = "database.unusable"
_DEFECTS = (DataError, IntegrityError, NotSupportedError)  # the database works, and refuses what it was asked
_DAMAGED = ("not a database", "malformed", "corrupt", "invalid page")
_SENTENCES = {
    "damaged": "The database is damaged, or is none. Restore it from a backup; classify reads a run's folder without.",
    "in use": "Another process holds the database for longer than this one waits. Let that end, then try again.",
    "": "The database cannot be used. Is it running, is its disk full, and did you run manage.py migrate?",
}


def database_trouble(error: BaseException) -> str:
    """One sentence with its remedy when the database cannot be used; empty for every other failure."""
    if not isinstance(error, DatabaseError | InterfaceError) or isinstance(error, _DEFECTS):
        return ""
    reason = " ".join(str(error).split())  # a server's message has several lines
    said = reason.casefold()
    state = "damaged" if any(word in said for word in _DAMAGED) else "in use" if "locked" in said else ""
    return f"{_SENTENCES[state]} ({reason})"
