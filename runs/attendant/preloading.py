"""Containers that stand ready before Harbor asks for them: the verifier's, while the agent still works.

It is owned, limited and without network like any other, and nothing runs in it until Harbor asks. If Harbor
never does, it is removed at the end of the process, or by the run's cleanup.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from runs.attendant.container import Container

_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="preload")
_ready: dict[str, Future[Container]] = {}


def prepare(session_id: str, make: Callable[[], Container]) -> None:
    """Begin to start the container of a session that is expected. Returns at once."""
    if session_id not in _ready:
        _ready[session_id] = _executor.submit(_started, make)


def take(session_id: str) -> Container | None:
    """The started container of this session, waited for; None when there is none or it did not start."""
    future = _ready.pop(session_id, None)
    if future is None or future.exception() is not None:
        return None
    return future.result()


def discard_all() -> None:
    """Remove what was prepared and never taken."""
    for session_id in list(_ready):
        container = take(session_id)
        if container is not None:
            container.discard()


def _started(make: Callable[[], Container]) -> Container:
    container = make()
    try:
        container.start()
    except BaseException:
        # The one who really needs it tries again, and says why it failed.
        container.discard()
        raise
    return container
