"""What if the database restarts while a run is executed? Try again for a while, on a new connection."""

import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, connections, transaction

FOR_S = 60.0
_PAUSE_S = 0.5


def patiently[T](
    act: Callable[[], T],
    *,
    for_s: float = FOR_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call ``act`` until the database answers, at most ``for_s`` seconds; then raise what it raised last.

    For acts that may be repeated, such as every compare-and-set of ``runs.lifecycle``. Not inside a
    transaction.
    """
    deadline = clock() + for_s
    while True:
        try:
            return act()
        except (OperationalError, InterfaceError):
            if clock() > deadline or not transaction.get_autocommit():
                raise
            connections.close_all()
            sleep(_PAUSE_S)
