"""What if the database restarts while a run is executed? Whoever executes it waits, on a new connection.

A page must not wait, so patience is off until a process that executes runs turns it on.
"""

import time
from collections.abc import Callable
from functools import partial, wraps

from django.db import InterfaceError, OperationalError, connection, connections

FOR_S = 60.0
_PAUSE_S = 0.5
_patience_s = 0.0


def be_patient(seconds: float = FOR_S) -> None:
    """From now on every ``patient`` act of this process waits so long for the database."""
    global _patience_s
    _patience_s = seconds


def patient[**P, T](act: Callable[P, T]) -> Callable[P, T]:
    """Decorate an act that may be repeated, such as a compare-and-set: see ``be_patient``."""

    @wraps(act)
    def patiently_done(*args: P.args, **kwargs: P.kwargs) -> T:
        return patiently(partial(act, *args, **kwargs), for_s=_patience_s)

    return patiently_done


def patiently[T](
    act: Callable[[], T],
    *,
    for_s: float = FOR_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call ``act`` until the database answers, at most ``for_s`` seconds; then raise what it raised last.

    Inside a transaction nothing is repeated: the transaction is lost as a whole.
    """
    deadline = clock() + for_s
    while True:
        try:
            return act()
        except (OperationalError, InterfaceError):
            if connection.in_atomic_block or clock() >= deadline:
                raise
            connections.close_all()
            sleep(_PAUSE_S)
